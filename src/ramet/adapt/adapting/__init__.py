"""What the functions of `ramet.adapt` share: places, steps and files of adapters."""
