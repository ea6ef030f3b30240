"""What ``torch.compile`` does in a trial: the tap of the profiles, under the name that trials use."""

from advisor.profiles.hooks.compilation import Compiling

__all__ = ["Compiling"]
