from multiprocessing import Pipe
from multiprocessing.connection import Connection

from advisor.profiles.hooks.loading.received_bytes import told_bytes


def test_what_a_connection_receives_is_counted_and_the_connection_left_as_it_was() -> None:
    near, far = Pipe()
    original = Connection._recv  # type: ignore[attr-defined]
    with told_bytes() as told:
        far.send_bytes(b"x" * 5000)
        assert near.recv_bytes() == b"x" * 5000
    assert 5000 <= told[0] < 5020
    assert Connection._recv is original  # type: ignore[attr-defined]
    far.send_bytes(b"y")
    assert near.recv_bytes() == b"y" and told[0] < 5020
