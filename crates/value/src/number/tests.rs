//! What MongoDB 6.0.5 answered to the same operands.

use super::*;

fn decimal(text: &str) -> Number {
    Number::Decimal(text.parse().unwrap())
}

fn shown(number: Number) -> String {
    match number {
        Int32(value) => format!("int {value}"),
        Int64(value) => format!("long {value}"),
        Double(value) => format!("double {value:e}"),
        Number::Decimal(value) => format!("decimal {value}"),
    }
}

#[test]
fn integers_promote_instead_of_wrapping() {
    assert_eq!(shown(Int32(i32::MAX).add(Int32(1))), "long 2147483648");
    assert_eq!(shown(Int32(1).add(Int64(1))), "long 2");
    assert_eq!(
        shown(Int64(1 << 62).add(Int64(1 << 62))),
        "double 9.223372036854776e18"
    );
    assert_eq!(
        shown(Int64(i64::MIN).subtract(Int32(1))),
        "double -9.223372036854776e18"
    );
    assert_eq!(shown(Int32(i32::MAX).multiply(Int32(3))), "long 6442450941");
    assert_eq!(
        shown(Int64(1 << 40).multiply(Int64(1 << 40))),
        "double 1.2089258196146292e24"
    );
    assert!(Int64(i64::MAX).checked_add(Int32(1)).is_none());
}

#[test]
fn division_and_remainder() {
    assert_eq!(shown(Int32(6).divide(Int32(3)).unwrap()), "double 2e0");
    assert_eq!(
        shown(decimal("1").divide(Int32(3)).unwrap()),
        "decimal 0.3333333333333333333333333333333333"
    );
    assert!(Int32(1).divide(Double(0.0)).is_none());
    assert_eq!(shown(Int32(-7).remainder(Int32(3)).unwrap()), "int -1");
    assert_eq!(
        shown(Double(7.5).remainder(Int32(2)).unwrap()),
        "double 1.5e0"
    );
    assert_eq!(
        shown(decimal("7.5").remainder(Int32(2)).unwrap()),
        "decimal 1.5"
    );
    assert_eq!(
        shown(decimal("1E40").remainder(Int32(7)).unwrap()),
        "decimal 4"
    );
    assert_eq!(
        shown(Int64(i64::MIN).remainder(Int32(-1)).unwrap()),
        "long 0"
    );
}

#[test]
#[allow(clippy::excessive_precision)]
fn doubles_become_decimals_of_fifteen_digits() {
    for (double, text) in [
        (0.1, "0.100000000000000"),
        (3.0, "3.00000000000000"),
        (1e20, "1.00000000000000E+20"),
        (1e-10, "1.00000000000000E-10"),
        (123456789.123456789, "123456789.123457"),
        (5e-324, "4.94065645841247E-324"),
        (f64::MAX, "1.79769313486232E+308"),
        (-2.5, "-2.50000000000000"),
        (-0.0, "-0"),
    ] {
        assert_eq!(Decimal::from_f64(double).to_string(), text);
    }
}

#[test]
fn doubles_become_exact_decimals_where_34_digits_allow() {
    for (double, text) in [
        (0.1, "0.1000000000000000055511151231257827"),
        (1.5, "1.5"),
        (100.0, "100"),
        (1e20, "100000000000000000000"),
        (1152921504606846976.0, "1152921504606846976"),
        (5e-324, "4.940656458412465441765687928682214E-324"),
    ] {
        assert_eq!(Decimal::from_f64_exact(double).to_string(), text);
    }
}

#[test]
fn decimal_bytes_survive() {
    for text in [
        "0",
        "-0",
        "1.10",
        "-1.1E+10",
        "9.999999999999999999999999999999999E+6144",
        "1E-6176",
    ] {
        let parsed: Decimal = text.parse().unwrap();
        let stored: bson::Decimal128 = text.parse().unwrap();
        assert_eq!(parsed.to_bson(), stored, "{text}");
        assert_eq!(Decimal::from_bson(stored).to_string(), text);
    }
    assert!("Infinity".parse::<Decimal>().unwrap().is_infinite());
    assert!("NaN".parse::<Decimal>().unwrap().is_nan());
}

#[test]
fn decimal_rounding() {
    let rounded = |text: &str, place| text.parse::<Decimal>().unwrap().round(place).to_string();
    assert_eq!(rounded("2.5", 0), "2");
    assert_eq!(rounded("3.5", 0), "4");
    assert_eq!(rounded("1.2345", 2), "1.23");
    assert_eq!(rounded("1250", -2), "1.2E+3");
    let value: Decimal = "-1.5".parse().unwrap();
    assert_eq!(value.floor().to_string(), "-2");
    assert_eq!(value.ceiling().to_string(), "-1");
    assert_eq!(value.truncate(0).to_string(), "-1");
    assert_eq!(
        "2".parse::<Decimal>().unwrap().sqrt().to_string(),
        "1.414213562373095048801688724209698"
    );
    let power = "2".parse::<Decimal>().unwrap().pow(Decimal::from_i64(10));
    assert_eq!(power.to_string(), "1024.000000000000000000000000000000");
}

#[test]
fn the_order_is_exact_across_types() {
    let two_53 = 9_007_199_254_740_992i64;
    let ascending = [
        Double(f64::NAN),
        Double(f64::NEG_INFINITY),
        decimal("-1E400"),
        Double(-f64::MAX),
        Double(-9_223_372_036_854_777_856.0),
        Int64(i64::MIN),
        Int64(i64::MIN + 1),
        Int32(-1),
        Double(-0.1),
        decimal("-0.1"),
        Double(-5e-324),
        decimal("-1E-400"),
        Int32(0),
        decimal("1E-400"),
        Double(5e-324),
        decimal("0.1"),
        Double(0.1),
        decimal("0.10000000000000001"),
        Int32(1),
        Int64(two_53),
        decimal("9007199254740992.5"),
        Int64(two_53 + 1),
        Double(two_53 as f64 + 2.0),
        Int64(i64::MAX - 1),
        Int64(i64::MAX),
        decimal("9223372036854775807.5"),
        Double(9_223_372_036_854_775_808.0),
        decimal("9223372036854775808.1"),
        Double(f64::MAX),
        decimal("1E400"),
        decimal("Infinity"),
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(a.compare(*b), i.cmp(&j), "{a:?} {b:?}");
        }
    }
    assert_eq!(Double(-0.0).compare(Int32(0)), Ordering::Equal);
    assert_eq!(decimal("-0").compare(Double(0.0)), Ordering::Equal);
    assert_eq!(decimal("NaN").compare(Double(f64::NAN)), Ordering::Equal);
    assert_eq!(decimal("1.10").compare(decimal("1.1")), Ordering::Equal);
    assert_eq!(decimal("0.5").compare(Double(0.5)), Ordering::Equal);
}
