"""Every private Keras name that this package uses, what for, and on which versions it exists.

A private name is one that is imported from `keras.src`, or that starts with an underscore.
The versions were looked up in the releases 3.12.0 to 3.15.1. A test (test_inventory.py) compares
the names with the code of this package and with the Keras that is installed.
"""

from typing import NamedTuple

from ramet._versions import KERAS

OLDEST, NEWEST = KERAS
"""The oldest and the newest minor version of Keras in which the names were looked up."""


class Private(NamedTuple):
    """A private name of Keras."""

    owner: str
    """The module that it is imported from, or the class that has the attribute."""
    name: str
    """The name itself."""
    purpose: str
    """What ramet uses it for."""
    since: str = OLDEST
    """The first minor version of Keras, of those that were checked, that has it."""
    backend: str | None = None
    """The backend on which it is used; `None` for all of them."""
    lacking: tuple[str, ...] = ()
    """Later versions that lack it."""


IMPORTS = (
    Private("keras.src.api_export", "get_symbol_from_name", "what a config names"),
    Private("keras.src.backend", "compute_output_spec", "the shape of a loss before it is reduced"),
    Private("keras.src.backend.common", "global_state", "name counters, the global seed generator"),
    Private("keras.src.layers.rnn.conv_lstm", "ConvLSTMCell", "whose kernels are adapted"),
    Private(
        "keras.src.backend.common.symbolic_scope",
        "in_symbolic_scope",
        "whether shapes are inferred",
    ),
    Private(
        "keras.src.backend.common.stateless_scope", "get_stateless_scope", "the values of a step"
    ),
    Private("keras.src.backend.common.variables", "AutocastScope", "reads variables uncast"),
    Private("keras.src.backend.common.variables", "Variable", "counts bytes of new variables"),
    Private("keras.src.backend.common.masking", "get_keras_mask", "the mask on a tensor"),
    Private("keras.src.backend.common.masking", "set_keras_mask", "the mask on a new tensor"),
    Private("keras.src.distribution.distribution_lib", "Distribution", "lays out like a source"),
    Private("keras.src.distribution.distribution_lib", "TensorLayout", "the layout of a variable"),
    Private("keras.src.initializers.random_initializers", "RandomInitializer", "has a seed"),
    Private("keras.src.metrics.reduction_metrics", "MeanMetricWrapper", "metrics that use masks"),
    Private("keras.src.models.functional", "Functional", "the class of models with a graph"),
    Private("keras.src.models.functional", "functional_like_constructor", "saved by its graph"),
    Private("keras.src.ops.function", "make_node_key", "the nodes of a `keras.Function`"),
    Private("keras.src.ops.node", "KerasHistory", "which call made a tensor"),
    Private("keras.src.ops.node", "Node", "one call of an operation"),
    Private("keras.src.ops.symbolic_arguments", "SymbolicArguments", "the arguments of a call"),
    Private("keras.src.optimizers.base_optimizer", "BaseOptimizer", "the base of all optimizers"),
    Private("keras.src.saving.keras_saveable", "KerasSaveable", "copied by its attributes"),
    Private("keras.src.saving.serialization_lib", "SafeModeScope", "no pickled code is loaded"),
    Private(
        "keras.src.saving.serialization_lib",
        "serialize_with_public_class",
        "how a file names a class",
    ),
    Private("keras.src.trainers.compile_utils", "CompileLoss", "which loss reads which output"),
    Private(
        "keras.src.trainers.compile_utils", "CompileMetrics", "which metrics read which output"
    ),
    Private("keras.src.utils", "module_utils", "whether TensorFlow can be imported"),
    Private("keras.src.utils", "tracking", "the tracked collections of layers"),
    Private("keras.src.utils.naming", "auto_name", "automatic names of layers"),
    Private("keras.src.utils.python_utils", "remove_by_id", "removes a layer from a list"),
    Private("keras.src.utils.tracking", "TrackedList", "lists that report to a tracker"),
    Private("keras.src.utils.tracking", "Tracker", "what a layer tracks"),
)

ATTRIBUTES = (
    # Operations and layers
    Private("Operation", "_inbound_nodes", "the calls of an operation"),
    Private("Operation", "_outbound_nodes", "the calls that use its outputs"),
    Private("Operation", "_auto_config", "not an option of an operation"),
    Private("Operation", "_lock", "not an option of an operation"),
    Private("Operation", "_remat_mode", "not an option of an operation", since="3.15"),
    Private("SymbolicArguments", "_flat_arguments", "the arguments of a call, flattened"),
    Private("SymbolicArguments", "_single_positional_tensor", "the only argument of a call"),
    Private("Layer", "_allow_non_tensor_positional_args", "what a layer accepts, compared"),
    Private("Layer", "_build_shapes_dict", "the arguments of `build`"),
    Private("Layer", "_call_context_args", "arguments passed on from outer calls"),
    Private("Layer", "_call_signature", "the arguments of `call`"),
    Private("Layer", "_convert_input_args", "what a layer accepts, compared"),
    Private("Layer", "_dtype_policy", "a map of policies is keyed by paths"),
    Private("Layer", "_flatten_layers", "a layer and all layers inside"),
    Private("Layer", "_get_own_losses", "the losses that a layer adds"),
    Private("ShapedLayer", "_input_shape_arg", "how a layer was built, not compared"),
    Private("Layer", "_input_spec", "what a layer accepts, compared"),
    Private("Layer", "_layers", "the layers that a layer tracks"),
    Private("Layer", "_loss_ids", "ids of the losses of the last call"),
    Private("Layer", "_losses", "losses of the last call"),
    Private("Layer", "_metrics", "the metrics that a layer tracks"),
    Private("Layer", "_non_trainable_variables", "variables that training does not change"),
    Private("Layer", "_parent_path", "the path of the layer around it"),
    Private("Layer", "_path", "renamed with a layer; of variables too"),
    Private("Layer", "_seed_generators", "the seed generators that a layer tracks"),
    Private("Layer", "_tracker", "what a layer tracks"),
    Private("Layer", "_trainable", "a model's own flag"),
    Private("Layer", "_trainable_variables", "variables that training changes; of optimizers too"),
    Private("Layer", "_torch_params", "PyTorch's list of parameters", backend="torch"),
    Private("Layer", "_track_variables", "renews that list", backend="torch"),
    Private("Layer", "_untrack_variable", "removes an adapter"),
    Private("Dense", "_get_kernel_with_merged_lora", "a kernel quantized with its adapter"),
    Private("Embedding", "_get_embeddings_with_merged_lora", "the same, of an embedding"),
    Private("UnbuiltLayer.build", "_is_default", "whether a class overrides `build`"),
    Private("Normalization", "_build_input_shape", "how it was built, not compared"),
    Private("MultiHeadAttention", "_query_dense", "the projection of the query"),
    Private("MultiHeadAttention", "_key_dense", "the projection of the key"),
    Private("MultiHeadAttention", "_value_dense", "the projection of the value"),
    Private("MultiHeadAttention", "_output_dense", "the projection of the output"),
    Private("MultiHeadAttention", "_output_shape", "the shape of its outputs, if chosen"),
    Private("MultiHeadAttention", "_gate_dense", "the projection of the gate", since="3.14"),
    Private("IntegerLookup", "_token_start_index", "whether there is a vocabulary"),
    # Models
    Private("Function", "_inputs", "flat inputs"),
    Private("Function", "_inputs_struct", "inputs in their structure"),
    Private("Function", "_nodes", "keys of nodes, which contain ids"),
    Private("Function", "_nodes_by_depth", "the order in which calls run"),
    Private("Function", "_operations", "the operations of a graph"),
    Private("Function", "_operations_by_depth", "the same, by depth"),
    Private("Function", "_outputs", "flat outputs"),
    Private("Function", "_outputs_struct", "outputs in their structure"),
    Private("Function", "_run_through_graph", "runs the calls of a graph"),
    Private("Sequential", "_functional", "the graph of a Sequential model"),
    Private("Model", "_compile_config", "the arguments of `compile`"),
    Private("Model", "_compile_loss", "set by `compile`"),
    Private("Model", "_compile_metrics", "set by `compile`"),
    Private("Model", "_compiled_trainable_state", "set by `compile`", since="3.15"),
    Private("Model", "_jax_state", "state during `fit`", backend="jax"),
    Private("Model", "_loss_tracker", "set by `compile`"),
    # Symbolic tensors
    Private("KerasTensor", "_keras_history", "which call made a tensor"),
    Private("MaskedTensor", "_keras_mask", "the mask on a tensor, in emitted source"),
    Private("KerasTensor", "_ragged", "whether a tensor is ragged"),
    Private("KerasTensor", "_ragged_rank", "the number of ragged dimensions"),
    Private("KerasTensor", "_row_splits_dtype", "the dtype of row splits"),
    # Variables, seeds, optimizers
    Private("Variable", "_direct_assign", "moves a value to another layout"),
    Private("Variable", "_layout", "on which devices a variable is", backend="jax"),
    Private("Variable", "_shape", "whether a new variable was counted"),
    Private("Variable", "_validate_shape", "called before a variable requests its memory"),
    Private("Variable", "_value", "the backend's value"),
    Private("SeedGenerator", "_initial_seed", "the state of a fresh generator"),
    Private("RandomInitializer", "_init_seed", "whether it was created with a seed"),
    Private("Optimizer", "_model_variables_moving_average", "averages of the variables"),
    Private("Optimizer", "_var_key", "the key of a variable"),
    Private("Optimizer", "_variables", "all variables of an optimizer"),
    # Losses and metrics
    Private("CompileLoss", "_flat_losses", "which loss reads which output"),
    Private("CompileMetrics", "_flat_metrics", "which metrics read which output"),
    Private("CompileMetrics", "_flat_weighted_metrics", "the same, weighted"),
    Private("CompileMetrics", "_flatten_y", "outputs in order", lacking=("3.14.0",)),
    Private("MeanMetricWrapper", "_fn", "the function of a metric"),
    Private("MeanMetricWrapper", "_fn_kwargs", "its options"),
    # Utilities
    Private("LazyModule", "_available", "TensorFlow is not imported to be asked"),
)

BACKEND_ATTRIBUTES = (
    Private("TensorFlow's wrapped lists", "_storage", "the plain list", backend="tensorflow"),
    Private("PyTorch's modules", "_buffers", "buffers in attributes", backend="torch"),
    Private("PyTorch's modules", "_modules", "layers in attributes", backend="torch"),
    Private("PyTorch's modules", "_parameters", "parameters in attributes", backend="torch"),
)
"""Private attributes of backends that Keras layers have through their base classes."""

FIELDS = frozenset(
    {
        "_accumulated_gradients",
        "_aggregation",
        "_allow_non_tensor_positional_args",
        "_auto_config",
        "_auto_config_error_args",
        "_autocast",
        "_build_shapes_dict",
        "_call_context_args",
        "_call_has_context_arg",
        "_call_has_mask_arg",
        "_call_has_training_arg",
        "_call_signature",
        "_called",
        "_compile_config",
        "_compile_loss",
        "_compile_metrics",
        "_compiled_trainable_state",
        "_compute_loss_has_training_arg",
        "_constraint",
        "_convert_input_args",
        "_distribute_reduction_method",
        "_distribute_strategy",
        "_distribution_strategy",
        "_dtype",
        "_dtype_policy",
        "_element_spec",
        "_eval_epoch_iterator",
        "_exclude_from_weight_decay",
        "_exclude_from_weight_decay_cache",
        "_exclude_from_weight_decay_pattern",
        "_functional",
        "_inbound_nodes",
        "_initial_epoch",
        "_initial_seed",
        "_initializer",
        "_input_shape_arg",
        "_input_spec",
        "_inputs",
        "_inputs_struct",
        "_iterations",
        "_jax_state",
        "_jax_state_synced",
        "_jit_compile",
        "_keras_history",
        "_layers",
        "_layout",
        "_learning_rate",
        "_lock",
        "_lock_violation_msg",
        "_loss_ids",
        "_loss_tracker",
        "_losses",
        "_losses_override",
        "_manual_input_spec",
        "_metrics",
        "_model_variables_moving_average",
        "_name",
        "_ndim",
        "_nnx_op_mapping",
        "_nodes",
        "_nodes_by_depth",
        "_non_trainable_variables",
        "_operations",
        "_operations_by_depth",
        "_outbound_nodes",
        "_outputs",
        "_outputs_struct",
        "_overwrite_with_gradient",
        "_parent_path",
        "_path",
        "_ragged",
        "_ragged_rank",
        "_regularizer",
        "_remat_mode",
        "_row_splits_dtype",
        "_run_eagerly",
        "_saved_model_arg_spec",
        "_saved_model_inputs_spec",
        "_seed_generators",
        "_self_setattr_tracking",
        "_shape",
        "_sparse",
        "_supports_masking",
        "_synchronization",
        "_torch_params",
        "_tracked",
        "_tracker",
        "_trainable",
        "_trainable_variables",
        "_trainable_variables_indices",
        "_value",
        "_variables",
    }
)
"""The private attributes that Keras's base classes assign, in any of the versions.

A copy treats those listed above specially, and copies the others by their values. One that is
missing here is noticed: see `versions.py`.
"""
