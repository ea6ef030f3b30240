"""A points file is read as it is meant, or refused with the line and the next step."""

from pathlib import Path

import pytest

from advisor.base.errors import UsageError
from advisor.planning.network import network_of
from advisor.planning.places import Place, Point
from advisor.planning.points_file import read_places, read_points, unread

HEADER = "ranks,nodes,local_batch,step_ms\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "points.csv"
    path.write_text(text)
    return path


def test_rows_become_points(tmp_path: Path) -> None:
    text = "ranks,nodes,local_batch,step_ms,exposed_communication_ms,parameters\n1,1,32,100,,25e6\n"
    text += "8,2,32,140,30,\n"
    assert read_points(written(tmp_path, text)) == [
        Point(Place(1, 1, 32), 100, parameters=25e6),
        Point(Place(8, 2, 32), 140, 30),
    ]


def test_a_placement_tells_ranks_and_nodes(tmp_path: Path) -> None:
    points = read_points(written(tmp_path, "placement,local_batch,step_ms\n2-2-4,32,100\n4-4,32,90\n"))
    assert [point.place for point in points] == [Place(8, 3, 32, widest=4), Place(8, 2, 32)]
    assert points[0].place.per_node == 4


def test_places_need_no_step(tmp_path: Path) -> None:
    assert read_places(written(tmp_path, "ranks,nodes,local_batch\n64,8,32\n")) == [Place(64, 8, 32)]


def test_columns_of_others_are_let_be_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, "who,ranks,nodes,local_batch,step_ms\nme,1,1,1,5\n")
    assert read_points(path)[0].step_ms == 5
    assert unread(path) == ["who"]


def test_an_epoch_may_be_told_in_one_row(tmp_path: Path) -> None:
    text = "ranks,nodes,local_batch,step_ms,epoch_samples\n1,1,32,5,60000\n2,1,32,6,\n"
    assert [point.epoch_samples for point in read_points(written(tmp_path, text))] == [60000, None]


BAD = {
    "empty": ("", "is empty"),
    "blank lines": ("\n\n", "is empty"),
    "no rows": (HEADER, "holds no row"),
    "missing column": ("ranks,nodes,local_batch\n1,1,32\n", "has no column step_ms"),
    "misspelt column": ("ranks,nodes,local_batch,steps_ms\n1,1,32,5\n", "is steps_ms meant by it"),
    "throughput alone": ("ranks,nodes,local_batch,throughput\n1,1,32,5\n", "1000 x ranks x local_batch"),
    "no local batch": ("ranks,nodes,step_ms\n1,1,5\n", "1 in every row if it never changes"),
    "tabs": ("ranks\tnodes\tlocal_batch\tstep_ms\n1\t1\t32\t5\n", "commas separate columns"),
    "a comment": ("# mine\nranks,nodes,local_batch,step_ms\n1,1,32,5\n", "comments are not read"),
    "a unit": (HEADER + "1,1,32,5 ms\n", "the column says the unit"),
    "column twice": ("ranks,ranks,nodes,local_batch,step_ms\n1,1,1,32,5\n", "the column ranks twice"),
    "negative step": (HEADER + "1,1,32,-5\n", "points.csv:2"),
    "zero ranks": (HEADER + "0,1,32,5\n", "has to be more than zero"),
    "half a rank": (HEADER + "1.5,1,32,5\n", "not a count"),
    "words": (HEADER + "1,1,32,fast\n", "'fast', not a number"),
    "nothing": (HEADER + "1,1,32,\n", "step_ms is empty"),
    "nan": (HEADER + "1,1,32,nan\n", "has to be more than zero"),
    "infinite": (HEADER + "1,1,32,inf\n", "has to be more than zero"),
    "short line": (HEADER + "1,1,32,5\n2,1,32\n", "3 cells under 4 columns"),
    "more nodes than ranks": (HEADER + "1,2,32,5\n", "1 ranks cannot lie on 2 nodes"),
    "placement disagrees": ("ranks,nodes,local_batch,step_ms,placement\n4,2,32,5,2-3\n", "has 5"),
    "placement of words": ("placement,local_batch,step_ms\ntwo,32,5\n", "ranks on each node"),
    "exposed longer": (
        "ranks,nodes,local_batch,step_ms,exposed_communication_ms\n2,1,32,5,6\n",
        "longer than its step",
    ),
    "bytes": ("\x00\x01", "has no column"),
    "of all ranks": ("ranks,nodes,global_batch,step_ms\n2,1,64,5\n", "of one rank: global_batch / ranks"),
    "GPUs": ("num_gpus,nodes,local_batch,step_ms\n1,1,32,5\n", "is num_gpus meant by it? Name it ranks"),
    "other letters": ("Ranks,nodes,local_batch,step_ms\n1,1,32,5\n", "is Ranks meant by it?"),
    "another name": ("ranks,nodes,local_batch,step time\n1,1,32,5\n", "Name it step_ms, in milliseconds"),
    "a separator": ("sep=,\nranks,nodes,local_batch,step_ms\n1,1,32,5\n", "delete the first line"),
    "a comment below": (HEADER + "# mine\n1,1,32,5\n", "delete the line"),
    "a batch beyond all": (HEADER + "1,1,1e308,5\n", "nothing was ever that large"),
    "a step below all": (HEADER + "1,1,32,1e-300\n", "nothing was ever that small"),
    "a thousand's comma": (HEADER + '1,1,32,"1,024.5"\n', "digits alone"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_what_cannot_be_meant_is_refused_with_the_next_step(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_points(written(tmp_path, text))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ((HEADER + "1,1,32,5\n").encode("utf-16"), "save it as CSV UTF-8"),
        (b"PK\x03\x04\xff\xfe", "a spreadsheet"),
        (b"PK\x03\x04xl", "a spreadsheet"),
        ("ranks,nodes,local_batch,step_ms,Größe\n1,1,32,5,1\n".encode("latin-1"), "save it as UTF-8"),
    ],
)
def test_what_a_spreadsheet_wrote_is_told_how_to_save(tmp_path: Path, content: bytes, hint: str) -> None:
    file = tmp_path / "points.csv"
    file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        read_points(file)
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize("start", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_marks_and_line_ends_of_spreadsheets_are_read(tmp_path: Path, start: bytes, end: bytes) -> None:
    file = tmp_path / "points.csv"
    file.write_bytes(start + end.join((HEADER.strip().encode(), b"1,1,32,5", b"2,1,32,6", b"")))
    assert [point.step_ms for point in read_points(file)] == [5, 6]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.csv: no such file"):
        read_points(tmp_path / "nowhere.csv")


def test_networks_have_names() -> None:
    for name, speed in (("100Gb", 12.5e9), ("8x400Gb", 400e9), ("4xib", 100e9), ("Ethernet", 1.25e9)):
        network = network_of(name)
        assert network is not None and network.bytes_per_s(1e8) == speed
    assert network_of("measured") is None
    with pytest.raises(UsageError, match="names no network"):
        network_of("fast")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "ranks,nodes,local_batch,step_ms\n1,1,100\n2,1,32,104\n",
            "local_batch=100; a cell that is not known",
        ),
        ("ranks,nodes,local_batch,step_ms\n1,1,32\n2,1,32\n", "every row has 3 cells: one name too many"),
        ("ranks,nodes,local_batch,step_ms\n1,1,32,8,100\n2,1,32,8,104\n", "a name is missing"),
        ("ranks,nodes,local_batch,step_ms\n1,1,32,100,5\n2,1,32,104\n", "points separate decimals"),
    ],
)
def test_a_row_of_another_length_is_refused_with_what_to_do(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "points.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match="cells under") as error:
        read_points(file)
    assert error.value.where == f"{file}:2"
    assert hint in str(error.value.hint)


def test_the_part_that_waits_for_data_is_read(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("ranks,nodes,local_batch,step_ms,loader_ms\n1,1,32,100,40\n2,1,32,104,\n")
    assert [point.loader_ms for point in read_points(file)] == [40, None]
    file.write_text("ranks,nodes,local_batch,step_ms,loader_ms\n1,1,32,100,140\n")
    with pytest.raises(UsageError, match="loader_ms is 140, longer than its step"):
        read_points(file)


def test_a_file_of_bus_bandwidths_is_a_network(tmp_path: Path) -> None:
    """What nccl-tests tells: small messages are slow, and those between two sizes lie between."""
    file = tmp_path / "network.csv"
    file.write_text("bytes,busbw_GBps\n1000000,2\n1000000,4\n1000000,3\n100000000,48\n")
    network = network_of(str(file))
    assert network is not None
    assert [network.bytes_per_s(size) for size in (1e3, 1e6, 1e8, 1e12)] == pytest.approx(
        [3e9, 3e9, 48e9, 48e9]
    )
    assert network.bytes_per_s(1e7) == pytest.approx(12e9)
    file.write_text("size,busbw_GBps\n1,2\n")
    with pytest.raises(UsageError, match="no column bytes"):
        network_of(str(file))
