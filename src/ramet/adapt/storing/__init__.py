"""Adapters in files: safetensors, with names of ramet or of PEFT."""
