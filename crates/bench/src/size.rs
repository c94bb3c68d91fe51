//! Byte sizes as people write them: `512MiB`, `4GiB`, `1.5 GB`.

use std::str::FromStr;

/// A number of bytes, parsed from `512MiB`, `4GiB`, `1.5GB` or `1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The size in gibibytes.
    pub fn gibibytes(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }

    /// The size in whole mebibytes, rounded down.
    pub fn mebibytes(self) -> u64 {
        self.0 >> 20
    }
}

impl std::fmt::Display for ByteSize {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_multiple_of(1 << 30) {
            write!(out, "{}GiB", self.0 >> 30)
        } else {
            write!(out, "{}MiB", self.mebibytes())
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unit_at = text
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number
            .trim()
            .parse()
            .map_err(|_| format!("{text:?} is not a size such as 512MiB or 4GiB"))?;
        let factor: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            _ => {
                return Err(format!(
                    "unknown unit {unit:?} in {text:?}: use KiB, MiB or GiB"
                ));
            }
        };
        if !number.is_finite() || number < 0.0 {
            return Err(format!("{text:?} is not a size"));
        }
        Ok(Self((number * factor as f64) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!("512MiB".parse(), Ok(ByteSize(512 << 20)));
        assert_eq!("1.5 GB".parse(), Ok(ByteSize(1_500_000_000)));
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert!("4 parsecs".parse::<ByteSize>().is_err());
        assert!("GiB".parse::<ByteSize>().is_err());
    }
}
