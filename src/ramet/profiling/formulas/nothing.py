"""What neither convolves nor multiplies matrices: it counts as no multiply-accumulates.

Normalization, activations, pooling, merging, reshaping, resizing and the like. Layers that only
augment in training do nothing in inference. What is in no list here and has no rule is uncounted,
such as loops over functions, Fourier transforms and decompositions.
"""

from ramet.profiling.registry import counts_layers, counts_operations, nothing

LAYERS = """
    Activation ActivityRegularization AdaptiveAveragePooling1D AdaptiveAveragePooling2D
    AdaptiveAveragePooling3D AdaptiveMaxPooling1D AdaptiveMaxPooling2D AdaptiveMaxPooling3D Add
    AlphaDropout AugMix AutoContrast Average AveragePooling1D AveragePooling2D AveragePooling3D
    BatchNormalization CategoryEncoding CenterCrop Concatenate
    ContrastLimitedAdaptiveHistogramEqualization Cropping1D Cropping2D Cropping3D CutMix
    Discretization Dropout ELU Equalization Flatten GaussianDropout GaussianNoise
    GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D GlobalMaxPooling1D
    GlobalMaxPooling2D GlobalMaxPooling3D GroupNormalization HashedCrossing Hashing Identity
    InputLayer IntegerLookup LayerNormalization LeakyReLU Masking MaxNumBoundingBoxes
    MaxPooling1D MaxPooling2D MaxPooling3D Maximum Minimum MixUp Multiply Normalization PReLU
    Permute RMSNormalization RandAugment RandomBrightness RandomColorDegeneration
    RandomColorJitter RandomContrast RandomCrop RandomElasticTransform RandomErasing RandomFlip
    RandomGaussianBlur RandomGrayscale RandomHue RandomInvert RandomPerspective
    RandomPosterization RandomRotation RandomSaturation RandomSharpness RandomShear
    RandomTranslation RandomZoom ReLU RepeatVector Rescaling Reshape Resizing Softmax
    Solarization SpatialDropout1D SpatialDropout2D SpatialDropout3D StringLookup Subtract
    TextVectorization UnitNormalization UpSampling1D UpSampling2D UpSampling3D ZeroPadding1D
    ZeroPadding2D ZeroPadding3D
"""

OPERATIONS = """
    Absolute AdaptiveAveragePool AdaptiveMaxPool Add AffineTransform All AllClose Amax Amin
    Angle Any Append Arange Arccos Arccosh Arcsin Arcsinh Arctan Arctan2 Arctanh Argmax Argmin
    Argpartition Argsort Array ArraySplit Average AveragePool BatchNorm BinaryCrossentropy
    Bincount BitwiseAnd BitwiseInvert BitwiseLeftShift BitwiseNot BitwiseOr BitwiseRightShift
    BitwiseXor BroadcastTo Cast CategoricalCrossentropy Cbrt Ceil Celu Clip Concatenate
    Conjugate ConvertToTensor Copy Cos Cosh CountNonzero CropImages Cross Cumprod Cumsum Deg2rad
    DepthToSpace Diag Diagflat Diagonal Diff Digitize Divide DivideNoNan Dsplit Dstack
    ElasticTransform Elu EmptyLike Equal Erf Erfc Erfinv Exp Exp2 ExpandDims Expm1
    ExtractPatches ExtractSequences Fabs Flip Fliplr Flipud Floor FloorDivide Fmax Fmin Fmod
    Fold Full FullLike Gcd Gelu Geomspace GetItem Glu Greater GreaterEqual HSVToRGB HardShrink
    HardSigmoid HardSilu HardTanh Heaviside Histogram Hsplit Hstack Hypot I0 Imag InTopK IsIn
    Isclose Isfinite Isinf Isnan Isneginf Isposinf Isreal Kron LayerNorm Lcm Ldexp LeakyRelu
    LeftShift Less LessEqual Linspace Log Log10 Log1p Log2 LogSigmoid LogSoftmax Logaddexp
    Logaddexp2 LogicalAnd LogicalNot LogicalOr LogicalXor Logspace Logsumexp MapCoordinates Max
    MaxPool Maximum Mean Median Meshgrid Min Minimum Mod Moments Moveaxis MultiHot Multiply
    NanToNum Nanargmax Nanargmin Nancumprod Nancumsum Nanmax Nanmean Nanmedian Nanmin
    Nanpercentile Nanprod Nanquantile Nanstd Nansum Nanvar Ndim Negative Nextafter Nonzero Norm
    Normalize NotEqual OneHot OnesLike Outer PSNR Pad PadImages Percentile PerspectiveTransform
    Polar Power Prod Ptp Quantile RGBToGrayscale RGBToHSV RMSNorm Rad2deg Ravel Real Rearrange
    Reciprocal Relu Relu6 Repeat Reshape Resize RightShift Roll Rot90 Round Rsqrt SaturateCast
    ScaleAndTranslate Scatter ScatterUpdate SearchSorted SegmentReduction Select Selu Sigmoid
    Sign Signbit Silu Sin Sinc Sinh Size Slice SliceUpdate SoftShrink Softmax Softplus Softsign
    Sort SpaceToDepth SparseCategoricalCrossentropy SparsePlus SparseSigmoid Sparsemax Split
    Sqrt Square Squareplus Squeeze Stack Std StopGradient Subtract Sum Swapaxes Take
    TakeAlongAxis Tan Tanh TanhShrink Threshold Tile TopK Trace Transpose Trapezoid Tril Triu
    TrueDivide Trunc Unfold Unique UnravelIndex Unstack Vander Var View ViewAsComplex ViewAsReal
    Vsplit Vstack Where ZerosLike
"""

counts_layers(*LAYERS.split())(nothing)
counts_operations(*OPERATIONS.split(), "LayerScale")(nothing)  # a private layer of ConvNeXt
