//! The published test vectors of the key encoding. The hashes were computed by another
//! implementation of xxh3-64.

use std::sync::Arc;

use arrow::array::*;

/// One column, one value.
pub(super) struct Vector {
    pub(super) name: &'static str,
    /// The value, as an array of one row.
    pub(super) value: fn() -> ArrayRef,
    /// Its key, in hexadecimal.
    pub(super) key: &'static str,
    /// xxh3-64 of the key.
    pub(super) hash: u64,
}

const fn vector(
    name: &'static str,
    value: fn() -> ArrayRef,
    key: &'static str,
    hash: u64,
) -> Vector {
    Vector {
        name,
        value,
        key,
        hash,
    }
}

/// These never change: state lies where they say.
pub(super) const VECTORS: &[Vector] = &[
    vector(
        "NULL",
        || Arc::new(StringArray::from(vec![None::<&str>])),
        "00",
        0xc44b_dff4_074e_ecdb,
    ),
    vector(
        "true",
        || Arc::new(BooleanArray::from(vec![true])),
        "0101",
        0x070d_80d6_a768_65f3,
    ),
    vector(
        "int32 7",
        || Arc::new(Int32Array::from(vec![7])),
        "028000000000000007",
        0x477a_6bbb_9704_f40d,
    ),
    vector(
        "int64 7",
        || Arc::new(Int64Array::from(vec![7])),
        "028000000000000007",
        0x477a_6bbb_9704_f40d,
    ),
    vector(
        "uint64 7",
        || Arc::new(UInt64Array::from(vec![7])),
        "028000000000000007",
        0x477a_6bbb_9704_f40d,
    ),
    vector(
        "int64 -1",
        || Arc::new(Int64Array::from(vec![-1])),
        "027fffffffffffffff",
        0x272f_8331_68d9_ce62,
    ),
    vector(
        "uint64 max",
        || Arc::new(UInt64Array::from(vec![u64::MAX])),
        "03ffffffffffffffff",
        0x461f_577b_67b4_5767,
    ),
    vector(
        "float64 1.5",
        || Arc::new(Float64Array::from(vec![1.5])),
        "04bff8000000000000",
        0xdb0f_7eaf_e963_7e94,
    ),
    vector(
        "float32 1.5",
        || Arc::new(Float32Array::from(vec![1.5])),
        "04bff8000000000000",
        0xdb0f_7eaf_e963_7e94,
    ),
    vector(
        "float64 0.0",
        || Arc::new(Float64Array::from(vec![0.0])),
        "048000000000000000",
        0x2f6e_1d13_b6fa_9eed,
    ),
    vector(
        "float64 -0.0",
        || Arc::new(Float64Array::from(vec![-0.0])),
        "048000000000000000",
        0x2f6e_1d13_b6fa_9eed,
    ),
    vector(
        "float64 -1.0",
        || Arc::new(Float64Array::from(vec![-1.0])),
        "04400fffffffffffff",
        0x2e1b_e21f_1f84_e028,
    ),
    vector(
        "float64 NaN",
        || Arc::new(Float64Array::from(vec![f64::NAN])),
        "04fff8000000000000",
        0x3516_6fd6_be44_5270,
    ),
    vector(
        "float64 -NaN",
        || Arc::new(Float64Array::from(vec![-f64::NAN])),
        "04fff8000000000000",
        0x3516_6fd6_be44_5270,
    ),
    vector(
        "text",
        || Arc::new(StringArray::from(vec!["key"])),
        "05036b6579",
        0x4468_a8a7_095a_002b,
    ),
    vector(
        "empty text",
        || Arc::new(StringArray::from(vec![""])),
        "0500",
        0x240b_7f68_adee_822c,
    ),
    vector(
        "text, not ASCII",
        || Arc::new(StringViewArray::from(vec!["ü"])),
        "0502c3bc",
        0xc225_0fb6_f78d_4b2a,
    ),
    vector(
        "binary",
        || Arc::new(BinaryArray::from(vec![b"\x00\xff".as_ref()])),
        "060200ff",
        0x04a7_e458_5e13_5832,
    ),
    vector(
        "decimal 1.50",
        || decimal(150, 2),
        "070280000000000000000000000000000096",
        0x1bdf_b527_90ab_6630,
    ),
    vector(
        "date 1970-01-02",
        || Arc::new(Date32Array::from(vec![1])),
        "0880000001",
        0xc526_e5eb_3ab7_a179,
    ),
    vector(
        "timestamp -1 ms",
        || Arc::new(TimestampMillisecondArray::from(vec![-1])),
        "097fffffffffffffff3b8b87c0",
        0xe17b_aeca_bfba_8477,
    ),
    vector(
        "timestamp 1 s",
        || Arc::new(TimestampSecondArray::from(vec![1])),
        "09800000000000000100000000",
        0x4c87_86b8_153a_d0a6,
    ),
    vector(
        "time 00:00:01",
        || Arc::new(Time64MicrosecondArray::from(vec![1_000_000])),
        "0a800000000000000100000000",
        0x5e63_3906_0a2f_5796,
    ),
    vector(
        "duration 1 s",
        || Arc::new(DurationNanosecondArray::from(vec![1_000_000_000])),
        "0b800000000000000100000000",
        0x150b_041f_2ff0_dff0,
    ),
];

fn decimal(value: i128, scale: i8) -> ArrayRef {
    Arc::new(
        Decimal128Array::from(vec![value])
            .with_precision_and_scale(38, scale)
            .unwrap(),
    )
}
