"""Fine-tuning: adapters, merging, quantization and precision, on the layers that you name."""
