//! Where a user may log in from, and to which of the server's addresses (`authenticationRestrictions`).

use bson::raw::{RawBsonRef, RawDocument};
use meridian_engine::{Error, Result};
use std::net::IpAddr;

/// One element: all that it names must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restriction {
    clients: Option<Vec<Range>>,
    servers: Option<Vec<Range>>,
}

/// The addresses that begin with so many bits of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u32,
}

/// Parses them all.
///
/// # Errors
/// `BadValue` for what is no address or range of addresses (CIDR), `UnsupportedFormat` for other fields.
pub fn parse_restrictions<'a>(
    all: impl IntoIterator<Item = &'a RawDocument>,
) -> Result<Vec<Restriction>> {
    all.into_iter().map(Restriction::parse).collect()
}

impl Restriction {
    fn parse(document: &RawDocument) -> Result<Self> {
        let (mut clients, mut servers) = (None, None);
        for (name, value) in document.iter().flatten() {
            let ranges = match value {
                RawBsonRef::Array(array) => array
                    .into_iter()
                    .flatten()
                    .map(|one| Range::parse(one.as_str().unwrap_or_default()))
                    .collect::<Result<Vec<_>>>()?,
                RawBsonRef::String(one) => vec![Range::parse(one)?],
                _ => {
                    return Err(Error::bad_value(format!(
                        "the authentication restriction '{}' must be an array of strings",
                        name.as_str()
                    )));
                }
            };
            match name.as_str() {
                "clientSource" => clients = Some(ranges),
                "serverAddress" => servers = Some(ranges),
                other => {
                    return Err(Error::new(
                        meridian_engine::Code::UnsupportedFormat,
                        format!("Unknown restriction type: {other}"),
                    ));
                }
            }
        }
        if clients.is_none() && servers.is_none() {
            return Err(Error::new(
                meridian_engine::Code::CollectionIsEmpty,
                "At least one of 'clientSource' or 'serverAddress' must be set",
            ));
        }
        Ok(Self { clients, servers })
    }

    /// Whether a client of this address may log in at this address of the server.
    pub fn allows(&self, client: IpAddr, server: IpAddr) -> bool {
        let holds = |ranges: &Option<Vec<Range>>, address: IpAddr| {
            let ranges = ranges.as_ref();
            ranges.is_none_or(|ranges| ranges.iter().any(|range| range.contains(address)))
        };
        holds(&self.clients, client) && holds(&self.servers, server)
    }
}

impl Range {
    fn parse(text: &str) -> Result<Self> {
        let invalid = || Error::bad_value("Invalid IP address in CIDR string");
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| Error::bad_value("Invalid CIDR prefix length"))?,
        };
        Ok(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        match (self.address, plain) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                u32::from(own) & mask == u32::from(other) & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                u128::from(own) & mask == u128::from(other) & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn addresses_are_compared_by_their_first_bits() {
        let allowed = |restriction: &RawDocument, client: &str| {
            let parsed = Restriction::parse(restriction).unwrap();
            parsed.allows(client.parse().unwrap(), "127.0.0.1".parse().unwrap())
        };
        let ten = rawdoc! { "clientSource": ["10.0.0.0/8", "::1"] };
        assert!(
            allowed(&ten, "10.1.2.3") && allowed(&ten, "::1") && allowed(&ten, "::ffff:10.9.9.9")
        );
        assert!(!allowed(&ten, "11.0.0.1") && !allowed(&ten, "::2"));
        let all = rawdoc! { "clientSource": ["0.0.0.0/0"], "serverAddress": ["127.0.0.1"] };
        assert!(allowed(&all, "9.9.9.9"));
        let other = rawdoc! { "serverAddress": ["10.0.0.1"] };
        assert!(!allowed(&other, "9.9.9.9"));
        for wrong in ["nope", "1.2.3.4/33", "1.2.3.4/x", "1.2.3.4.5"] {
            assert!(Restriction::parse(&rawdoc! { "clientSource": [wrong] }).is_err());
        }
        assert!(Restriction::parse(&rawdoc! { "other": ["::1"] }).is_err());
    }
}
