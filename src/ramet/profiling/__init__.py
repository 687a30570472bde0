"""What a model costs: operations, parameters, memory and time, call by call."""
