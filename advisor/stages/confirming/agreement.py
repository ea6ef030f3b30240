"""Whether a faster form of a model still says the same: the numbers of a run that is counted in requests."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.stages.bench import MeasuredBench
from advisor.stages.confirming.numerics import Numerics
from advisor.tuners.accuracy.acceptance import MAX_LOSS, Acceptance, Scores, accept
from advisor.tuners.accuracy.agreement import agreement
from advisor.tuners.accuracy.outputs import Output, flattened
from advisor.tuners.accuracy.shares import samples_for_none
from advisor.tuners.accuracy.validity import invalid
from advisor.tuners.comparing import gate
from advisor.tuners.comparing.duel import Arena
from advisor.tuners.knob import Semantics, Value
from advisor.tuners.launching.rank_group import Running
from advisor.tuners.launching.session import SessionEnded
from advisor.tuners.space.configuration import Configuration
from advisor.tuners.space.space import Space
from advisor.tuners.trial.numerics.kept_outputs import KeptOutputs, comparable, digest
from advisor.tuners.trial.served_messages import InputsTaken, OutputsTaken, TakeInputs, TakeOutputs

MOST = 4000  # samples
AGAIN = 64  # that the program as it is answers twice: whether it repeats shows in the first
MARGIN = 1.2  # times the samples that bound a loss, where they take longer than the usual share
WIDE_SHARE = 0.7  # of what is left when it begins, that this may take
LEAST_S = 1.0  # in which some are kept, however little time is left
OF_REFERENCE = 64  # samples: kernels that saturate show it in the first
SHARE = 0.2  # of what is left when it begins, for all that is kept: pairs of processes need the rest
TAKEN = 4  # times where nothing is refused: the program twice, the change, and its dequantised reference
WHOLE = 2  # of them with all samples: the program and the change
WIDEST = (Semantics.EXACT, Semantics.ROUNDING, Semantics.PRECISION, Semantics.TRAINING)
COUNTED = (Semantics.PRECISION, Semantics.TRAINING)  # by samples: the same one twice says nothing more
OWN = MOST, AGAIN
COMMON = 0.5  # of inputs, below which a changed program is asked what the unchanged one was
REPEATS = 1e-3  # relative difference of a model to itself; sums in another order are below 1e-5 in float32
NOTHING_COMMON = "its inputs are others in every run, so outputs cannot be compared"
NO_SAMPLES = "the dataset has no samples that could be set apart to compare its answers on"
NOTHING_IN_THEM = "its answers hold no tensors, numbers or text, so nothing can be compared"
DEPENDS = "asked the same twice it answers otherwise, so that nothing tells what a change does to it"


@dataclass
class AgreementCheck:
    """Compares outputs of fresh processes on samples that nothing was calibrated or chosen by.

    Attributes:
        space: Knows the program as it is.
        max_loss: Tolerated relative loss.
        share: Of the time that is left, in which outputs are kept.
        refused: Changes that declined in a process, with the reason.
    """

    bench: MeasuredBench
    space: Space
    max_loss: float = MAX_LOSS
    share: float = SHARE
    refused: dict[str, str] = field(default_factory=dict)

    def run(self, winner: Configuration) -> Numerics:
        """The winner less what changes its answers too much.

        Raises:
            TrialFailed: A process failed.
        """
        self._inputs, self._dealt = "", False
        self._apart: bool | None = None  # requests of a script are taken apart: the first process says
        wanted_s = MARGIN * deciding_s(self.bench, self.space.present, winner, self.max_loss) / WHOLE
        usual_s, widest_s = self.share * self.bench.room_s / TAKEN, WIDE_SHARE * self.bench.room_s / WHOLE
        self._limit_s = max(LEAST_S, usual_s, min(wanted_s, widest_s))
        self._own = self._outputs(self.space.present, OWN)[:2]
        if not self._told_twice(self._common()):
            if self._dealt:
                # one that remembers what it was asked answers alike from the start of a process
                self._own[1] = self._outputs(self.space.present, (AGAIN,))[0]
            elif self._own[0].keys:
                self._ask_the_same()
        # of the change no more than it can stand beside
        self._most = max(1, len(self._own[0].keys))
        found = Numerics(winner)
        whole = self._judge(winner, found)
        if whole.verdict == "accepted":
            return found
        left = winner
        changed, beside = winner.changed(self.space.present), list[str]()
        for name in changed if len(changed) > 1 else ():
            alone = self.space.complete({name: winner[name]})
            if not alone.changed(self.space.present):
                beside.append(name)  # does nothing without another, as spinning without that runtime
            elif self._judge(alone, found, name).verdict != "accepted":
                left = self.space.complete(self.space.without(left, name))
        for name in beside if left == winner else ():  # what each does alone is right
            left = self.space.complete(self.space.without(left, name))
            found.rejected[name] = whole.reason
        if left == winner or not left.changed(self.space.present):
            left = self.space.present  # each is right alone, all together are not
        elif self._judge(left, found).verdict != "accepted":
            left = self.space.present
        if not left.changed(self.space.present):
            found.rejected.update({name: whole.reason for name in changed if name not in found.rejected})
            for name in found.rejected:
                found.verdicts.setdefault(name, _verdict(whole))
        found.config, found.reason = left, whole.reason
        return found

    def _judge(self, config: Configuration, found: Numerics, name: str = "") -> Acceptance:
        semantics = _widest(self.bench.arena, self.space.present, config)
        referred = semantics is Semantics.PRECISION
        other, reference = self._outputs(config, (self._most,), reference=referred)
        own, again = self._own
        common = self._common(other)
        if not (self._told_twice(common) or self._inputs or self._dealt) and self._ask_the_same():
            return self._judge(config, found, name)
        twice = self._twice(common)
        if not self._repeats(twice):
            reason = DEPENDS if common else NO_SAMPLES if self._dealt else NOTHING_COMMON
            found.verdicts[name] = gate.Verdict("not_checked", reason)
            return Acceptance("not_decidable", "agreement", reason)
        if not any(map(comparable, own.outputs)):
            found.verdicts[name] = gate.Verdict("not_checked", NOTHING_IN_THEM)
            return Acceptance("not_decidable", "agreement", NOTHING_IN_THEM)
        by_reference = set(reference.keys)
        common.sort(key=lambda key: key not in by_reference)
        asked = len(common)
        if semantics in COUNTED:
            common = _different(own, common)
        held = [key for key in common if key in by_reference]
        judged = accept(
            _leaves(own, common),
            _leaves(other, common),
            semantics,
            own=agreement(_leaves(own, twice), _leaves(again, twice)),
            reference=_leaves(reference, held) if held else None,
            scores=_scores(own, other, common),
            max_loss=self.max_loss,
        )
        if len(common) < asked:
            asking = "samples" if self._apart else "requests"
            told = f"{judged.reason}; {asked} {asking} asked only {len(common)} different things"
            judged = replace(judged, reason=told)
        found.verdicts[name] = _verdict(judged)
        if name and judged.verdict != "accepted":
            found.rejected[name] = judged.reason
        return judged

    def _ask_the_same(self) -> bool:
        """Keep inputs of the unchanged program, with which all are asked from now on, if there are any.

        A program that goes on from what its model answered asks otherwise once an answer is another one.
        """
        session = self.bench.arena.start(self.space.present, 0)
        limit_s = self._limit_s
        try:
            session.first_step()
            path = session.folder / "inputs.pt"
            taken = session.ask(TakeInputs(str(path), MOST, limit_s), InputsTaken, limit_s + 60.0)
            if not taken.count:
                return False
            self._inputs = shutil.copy(str(path), str(session.folder.parent))
            self._own = [self._take(session, number, most)[1] for number, most in enumerate(OWN)]
        except SessionEnded:
            if not self._inputs:
                return False
            session.kill()
            self._own = self._outputs(self.space.present, OWN)[:2]  # it had come to its end
        finally:
            session.kill()
        return True

    def _common(self, *others: KeptOutputs) -> list[str]:
        """Samples that the program as it is has answered, and others too."""
        known = [set(each.keys) for each in others]
        return [key for key in self._own[0].keys if all(key in keys for keys in known)]

    def _twice(self, common: Sequence[str]) -> list[str]:
        """Those of them that the program as it is has answered again."""
        known = set(self._own[1].keys)
        return [key for key in common if key in known]

    def _told_twice(self, common: Sequence[str]) -> bool:
        """Whether most of what was asked came again, and was answered the same."""
        twice, least = self._twice(common), min(len(each.keys) for each in self._own)
        most = len(common) >= COMMON * len(self._own[0].keys) and len(twice) >= COMMON * least
        return most and self._repeats(twice)

    def _repeats(self, twice: Sequence[str]) -> bool:
        """Whether the unchanged program answers the same when it is asked the same."""
        own, again = (_leaves(each, twice) for each in self._own)
        if not twice or invalid(own, again):
            return False
        found = agreement(own, again)
        return found.relative_rms <= REPEATS and found.other_values <= self.max_loss * found.samples

    def _outputs(
        self, config: Mapping[str, Value], most: Sequence[int], *, reference: bool = False
    ) -> list[KeptOutputs]:
        """What fresh processes answer, so many each time, and then what the dequantised reference does."""
        kept: list[KeptOutputs] = []
        while len(kept) < len(most):
            kept += self._of_one_process(config, most[len(kept) :], reference)
        return kept + [KeptOutputs()] * (len(most) + 1 - len(kept))

    def _of_one_process(
        self, config: Mapping[str, Value], most: Sequence[int], reference: bool
    ) -> list[KeptOutputs]:
        """Outputs for a workload's samples as often as ``most`` has numbers, for a script's requests once."""
        session = self.bench.arena.start(config, 0)
        kept: list[KeptOutputs] = []
        try:
            session.first_step()
            for number, count in enumerate((*most, *[min(OF_REFERENCE, most[0])] * reference)):
                answer, outputs = self._take(session, number, count, of_reference=number == len(most))
                kept.append(outputs)
                self._dealt = answer.available is not None
                if answer.available is None and len(most) > 1 and not self._inputs:
                    break  # its next requests are others
            session.slot(1, drop=0)  # says what declined
            self.refused.update(session.last.refused)
            session.stop()
        except SessionEnded:  # or it has come to its end
            kept += [KeptOutputs()] * (len(most) - len(kept))
            if session.outcome is not None:
                self.refused.update(session.outcome.refused)
        finally:
            session.kill()
        return kept

    def _take(
        self, session: Running, number: int, most: int, of_reference: bool = False
    ) -> tuple[OutputsTaken, KeptOutputs]:
        path = session.folder / f"outputs-{number}.pt"
        limit_s = self._limit_s
        command = TakeOutputs(
            str(path), "confirmation", most, limit_s, of_reference, self._inputs, self._apart
        )
        answer = session.ask(command, OutputsTaken, limit_s + 60.0)
        if self._apart is None and answer.available is None:
            self._apart = answer.apart
        return answer, KeptOutputs.read(path)


def deciding_s(
    bench: MeasuredBench, present: Mapping[str, Value], config: Mapping[str, Value], max_loss: float
) -> float:
    """Seconds of the requests by which a change of the answers is told from ``max_loss``.

    Both programs answer them. 0 where it changes no more than roundings, which a few answers show. A request
    for several samples is expected to be taken apart.
    """
    if _widest(bench.arena, present, config) not in COUNTED:
        return 0.0
    requests = math.ceil(samples_for_none(max_loss) / _samples_per_request(bench))
    return WHOLE * requests * bench.arena.step_s


def _samples_per_request(bench: MeasuredBench) -> float:
    run = bench.baseline.profile.run
    return 1.0 if run is None else max(1.0, run.samples_per_step or 1.0)


def _widest(arena: Arena, present: Mapping[str, Value], config: Mapping[str, Value]) -> Semantics:
    """The widest of what the changes of a configuration mean."""
    changed = Configuration(config).changed(present)
    kinds = {arena.knobs[knob].meaning(config) for knob in changed if knob in arena.knobs}
    return max(kinds, key=WIDEST.index, default=Semantics.EXACT)


def _verdict(judged: Acceptance) -> gate.Verdict:
    if judged.verdict != "accepted":
        refused = judged.verdict == "refused"
        return gate.Verdict("drifts" if refused else "not_checked", judged.reason, judged.by)
    found = judged.agreement
    same = found is not None and found.relative_rms == 0 and not found.other_values
    return gate.Verdict("identical" if same else "within_noise", judged.reason)


def _leaves(kept: KeptOutputs, keys: Sequence[str]) -> list[Output]:
    places = {key: place for place, key in enumerate(kept.keys)}
    return [flattened(kept.outputs[places[key]]) for key in keys]


def _different(kept: KeptOutputs, keys: Sequence[str]) -> list[str]:
    """The first of all samples that ask the same; what random numbers answered otherwise is another one."""
    asked = dict(zip(kept.keys, kept.asked, strict=True))
    decided = dict(zip(keys, map(_decisions, _leaves(kept, keys)), strict=True))
    return list({(asked[key], decided[key]): key for key in reversed(keys)}.values())[::-1]


def _decisions(output: Output) -> str:
    """Names what an answer says without its numbers, which are never exactly the same: tokens, texts."""
    return digest({path: leaf.values for path, leaf in output.items() if not leaf.floating})


def _scores(own: KeptOutputs, other: KeptOutputs, keys: Sequence[str]) -> Scores | None:
    if not own.scores or not other.scores:
        return None
    by_key = [dict(zip(kept.keys, kept.scores, strict=True)) for kept in (own, other)]
    return Scores([by_key[0][key] for key in keys], [by_key[1][key] for key in keys])
