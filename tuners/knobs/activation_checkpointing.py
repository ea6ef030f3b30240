"""Computing a block's activations again in backward instead of keeping them."""

from types import MethodType
from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics
from advisor.tuners.mechanisms.blocks import NO_BLOCKS, repeated_blocks
from advisor.tuners.mechanisms.recomputation import recomputing

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


class ActivationCheckpointing(Knob[str]):
    """Keeps only the inputs of repeated blocks; backward computes the rest once more.

    `blocks` does so for all of them, `every-other` for every second one, `selective` for all but keeps the
    results of matrix products and convolutions, which cost most to compute. It trades time for memory: 0.69
    to 0.75 times the speed, and 20 % less growth of the peak (U-Net 710 to 565 MB, GPT-2 837 to 641 MB). So
    it pays only where memory is short or together with a larger batch. bf16 saved as much on the U-Net and
    was faster: try `amp` first.

    Gradients are the same bits: random numbers are drawn again as they were, and statistics of batch norm
    are updated once. A block whose output depends on something else that changes meanwhile cannot be
    computed again. Caches of attention keys are left out in training.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.0
    written = ("checkpoint",)

    def __init__(self) -> None:
        self._found = False
        self._called = False

    def values(self) -> list[str]:
        return ["none", "blocks", "every-other", "selective"]

    def present(self, profile: Profile) -> str:
        if any(root.checkpointed for root in profile.roots):
            raise Refused("the program recomputes activations itself")
        return "none"

    def choices(self, profile: Profile) -> list[str]:
        self.check("blocks", profile)
        return self.values()

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if not any(root.repeated_blocks > 1 for root in profile.roots):
            raise Refused(NO_BLOCKS)
        if any(root.scripted for root in profile.roots):
            raise Refused("the model is scripted or traced, so its blocks have no forward to replace")
        if any(root.parallel == "DataParallel" for root in profile.roots):
            raise Refused("DataParallel copies the blocks in each forward")

    def model(self, root: "Module", value: str) -> "Module":
        """Give the blocks of one root a forward that keeps only its inputs.

        Raises:
            Refused: A block's forward was replaced before.
        """
        if value == "none":
            return root
        blocks = repeated_blocks(root)[:: 2 if value == "every-other" else 1]
        if any("forward" in vars(block) for block in blocks):
            raise Refused("the forward of a block has been replaced already")
        if blocks:
            self._found = True
            forward = recomputing(value == "selective", self._note_call)
            for block in blocks:
                block.forward = MethodType(forward, block)
        return root

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Look whether anything was recomputed before the first update.

        Raises:
            Refused: There are no blocks, or they are not called as modules.
        """
        if value != "none" and not self._found:
            raise Refused(NO_BLOCKS)
        if value != "none" and not self._called:
            raise Refused("the blocks are not called as modules, so their forward cannot be repeated")

    def change(self, value: str) -> Change:
        if value == "none":
            return Change("# call the blocks as they are")
        call = "input = checkpoint(block, input, use_reentrant=False)"
        lines = ["from torch.utils.checkpoint import checkpoint", "for block in blocks:", f"    {call}"]
        if value == "every-other":
            lines[1:] = [
                "for number, block in enumerate(blocks):",
                "    if number % 2 == 0:",
                f"        {call}",
                "    else:",
                "        input = block(input)",
            ]
        if value == "selective":
            lines = [
                "from functools import partial",
                "from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts",
                "ops = torch.ops.aten  # kept: matrix products and convolutions",
                "kept = [ops.mm.default, ops.addmm.default, ops.bmm.default, ops.convolution.default]",
                "contexts = partial(create_selective_checkpoint_contexts, kept)",
                "for block in blocks:",
                "    input = checkpoint(block, input, use_reentrant=False, context_fn=contexts)",
            ]
        return Change("\n".join(lines))

    def _note_call(self) -> None:
        self._called = True
