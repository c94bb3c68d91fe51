//! Sizes as people write them: `1GiB`, `512MiB`, `1000000`.

/// Reads a size in bytes: a number and perhaps a unit.
///
/// `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024; `KB`, `MB`, `GB`, `TB` powers of 1000.
///
/// # Errors
/// A sentence that names the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let invalid = || format!("'{text}' is not a size; write it like 1GiB, 512MiB or 1000000");
    let trimmed = text.trim();
    let unit_at = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(unit_at);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(invalid()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(invalid);
    }
    fractional_size(number, factor).ok_or_else(invalid)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a fraction of a unit is approximate, and the range is checked"
)]
fn fractional_size(number: &str, factor: u64) -> Option<u64> {
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes >= 0.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units() {
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("512 MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1000000"), Ok(1_000_000));
        assert_eq!(parse_size("1.5KB"), Ok(1500));
        for wrong in ["", "GiB", "1 parsec", "-1", "99999999999TiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
