//! Functions of decimals against what MongoDB 6.0.5 answered.
//!
//! `data/decimal_functions.txt` has one answer a line: function, arguments, result; `log2` is
//! what `$log` answers to base 2. Left out are arguments of which the last digit is known to
//! differ: of about 100 000 asked at random five (one each of `sin`, `asin`, `acos`, `asinh` and
//! `acosh`), presumably where a binary128 function of MongoDB's library is not correctly
//! rounded; and some powers, which ours rounds correctly and MongoDB does not.

use meridian_value::number::Decimal;

fn result(function: &str, arguments: &[Decimal]) -> Decimal {
    let [a, rest @ ..] = arguments else {
        panic!("{function} without an argument");
    };
    match function {
        "sin" => a.sin(),
        "cos" => a.cos(),
        "tan" => a.tan(),
        "asin" => a.asin(),
        "acos" => a.acos(),
        "atan" => a.atan(),
        "atan2" => a.atan2(rest[0]),
        "sinh" => a.sinh(),
        "cosh" => a.cosh(),
        "tanh" => a.tanh(),
        "asinh" => a.asinh(),
        "acosh" => a.acosh(),
        "atanh" => a.atanh(),
        "exp" => a.exp(),
        "ln" => a.ln(),
        "log10" => a.log10(),
        "log2" => a.log2(),
        "sqrt" => a.sqrt(),
        "pow" => a.pow(rest[0]),
        "ceil" => a.ceiling(),
        "floor" => a.floor(),
        "round" => a.round(place(rest)),
        "trunc" => a.truncate(place(rest)),
        "degreesToRadians" => a.to_radians(),
        "radiansToDegrees" => a.to_degrees(),
        _ => panic!("no function {function}"),
    }
}

fn place(arguments: &[Decimal]) -> i32 {
    let place = arguments
        .first()
        .map(|place| place.to_i64_exact().expect("a place"));
    i32::try_from(place.unwrap_or(0)).expect("a place")
}

/// What differs from a line of the file.
fn difference(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [function, arguments @ .., expected] = &words[..] else {
        panic!("not an answer: {line}");
    };
    let arguments: Vec<Decimal> = arguments
        .iter()
        .map(|argument| argument.parse().expect("a decimal"))
        .collect();
    let actual = result(function, &arguments).to_string();
    (actual != *expected).then(|| format!("{line}, not {actual}"))
}

#[test]
fn functions_answer_as_mongodb_does() {
    let answers = include_str!("data/decimal_functions.txt");
    let differences: Vec<String> = answers.lines().filter_map(difference).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Reduced by as many bits of pi as the argument has, once in a thread.
#[test]
fn an_enormous_angle_takes_no_longer_than_the_bits_of_its_integer_part() {
    let angle: Decimal = "9.999999999999999999999999999999999E+6144".parse().unwrap();
    let start = std::time::Instant::now();
    for _ in 0..10 {
        assert!(angle.sin().abs().to_f64() < 1.0);
    }
    assert!(start.elapsed().as_secs() < 5);
}
