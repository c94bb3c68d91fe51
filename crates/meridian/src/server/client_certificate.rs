//! Clients' certificates: checked by webpki, and those of X.509 version 1, which it refuses, by the few rules that
//! are left for them. MongoDB's servers take them, and `openssl x509 -req` makes them unless it is told otherwise.
//!
//! A certificate of version 1 has no extensions: no purposes, no constraints, nothing critical to understand. It is
//! good when one of the trusted authorities signed it itself, and the time is within its validity. It can sign no
//! other (webpki refuses it as an intermediate), and is not looked for behind intermediates.
//!
//! Layout (RFC 5280, 4.1), each part a tag, a length and a value (X.690, DER):
//!
//! ```text
//! Certificate     SEQUENCE { TBSCertificate, algorithm SEQUENCE, signature BIT STRING }
//! TBSCertificate  SEQUENCE { serial INTEGER, algorithm SEQUENCE, issuer SEQUENCE,
//!                            validity SEQUENCE { from Time, until Time }, subject SEQUENCE, key SEQUENCE }
//! key             SEQUENCE { algorithm SEQUENCE, key BIT STRING }
//! ```

use bson::DateTime;
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use rustls::pki_types::{TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore};
use std::sync::Arc;
use x509_cert::der::Decode as _;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;

/// The subject of a certificate as a distinguished name (RFC 4514), the most specific part first: the name of a user.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    let name = parsed.tbs_certificate().subject().to_string();
    (!name.is_empty()).then_some(name)
}

/// Accepts clients with a certificate of one of the authorities.
#[derive(Debug)]
pub struct ClientVerifier {
    /// What decides on all certificates but those of version 1.
    pub webpki: Arc<dyn ClientCertVerifier>,
    /// The authorities.
    pub roots: Arc<RootCertStore>,
    /// What may sign.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(own) = Version1::parse(end_entity) else {
            let webpki = &self.webpki;
            return webpki.verify_client_cert(end_entity, intermediates, now);
        };
        let verified = own.verify(&self.roots.roots, now, self.algorithms.all);
        verified.map_err(|error| {
            tracing::warn!(
                %error,
                "a client's certificate of X.509 version 1 is refused: it must be valid now and signed by one of \
                 the authorities itself; behind an intermediate authority it must be of version 3"
            );
            Error::InvalidCertificate(error)
        })?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(own) = Version1::parse(certificate) else {
            let webpki = &self.webpki;
            return webpki.verify_tls12_signature(message, certificate, signed);
        };
        let mut mapping = self.algorithms.mapping.iter();
        let offered = mapping.find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = offered.map_or(&[][..], |(_, algorithms)| algorithms);
        match own.key.has_signed(message, signed.signature(), algorithms) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(own) = Version1::parse(certificate) else {
            let webpki = &self.webpki;
            return webpki.verify_tls13_signature(message, certificate, signed);
        };
        let key = SubjectPublicKeyInfoDer::from(own.whole_key);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

/// A certificate of version 1, whose parts are where they belong.
struct Version1<'a> {
    /// What is signed.
    body: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    issuer: &'a [u8],
    /// As [`time`] reads them.
    valid: [String; 2],
    key: PublicKey<'a>,
    /// The key with its tag and length.
    whole_key: &'a [u8],
}

impl<'a> Version1<'a> {
    /// None for a certificate of another version, whose body begins with the version, and for what is none.
    fn parse(certificate: &'a [u8]) -> Option<Self> {
        let mut rest = certificate;
        let mut outer = take(&mut rest, SEQUENCE)?;
        let (mut body, whole_body) = take_whole(&mut outer, SEQUENCE)?;
        let algorithm = take(&mut outer, SEQUENCE)?;
        let signature = bits(&mut outer)?;
        take(&mut body, INTEGER)?;
        let same_algorithm = take(&mut body, SEQUENCE)? == algorithm;
        let issuer = take(&mut body, SEQUENCE)?;
        let mut validity = take(&mut body, SEQUENCE)?;
        let valid = [time(&mut validity)?, time(&mut validity)?];
        take(&mut body, SEQUENCE)?;
        let (key, whole_key) = take_whole(&mut body, SEQUENCE)?;
        let behind = [rest, outer, body, validity].concat();
        (same_algorithm && behind.is_empty()).then_some(Self {
            body: whole_body,
            algorithm,
            signature,
            issuer,
            valid,
            key: PublicKey::parse(key)?,
            whole_key,
        })
    }

    fn verify(
        &self,
        roots: &[TrustAnchor<'_>],
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), CertificateError> {
        let now = seconds_text(now).ok_or(CertificateError::BadEncoding)?;
        let [from, until] = &self.valid;
        if now < *from {
            return Err(CertificateError::NotValidYet);
        }
        if now > *until {
            return Err(CertificateError::Expired);
        }
        let named = algorithms.iter().copied();
        let named: Vec<_> = named
            .filter(|algorithm| algorithm.signature_alg_id().as_ref() == self.algorithm)
            .collect();
        // An authority with constraints on names would have them checked, which is webpki's work.
        let is_issuer = |root: &TrustAnchor<'_>| {
            let key = PublicKey::parse(root.subject_public_key_info.as_ref());
            root.subject.as_ref() == self.issuer
                && root.name_constraints.is_none()
                && key.is_some_and(|key| key.has_signed(self.body, self.signature, &named))
        };
        match roots.iter().any(is_issuer) {
            true => Ok(()),
            false => Err(CertificateError::UnknownIssuer),
        }
    }
}

struct PublicKey<'a> {
    algorithm: &'a [u8],
    bits: &'a [u8],
}

impl<'a> PublicKey<'a> {
    /// The key of what stands inside its sequence.
    fn parse(mut inside: &'a [u8]) -> Option<Self> {
        let algorithm = take(&mut inside, SEQUENCE)?;
        let bits = bits(&mut inside)?;
        inside.is_empty().then_some(Self { algorithm, bits })
    }

    /// Whether the signature is this key's, by one of the algorithms that are for such keys.
    fn has_signed(
        &self,
        message: &[u8],
        signature: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        let mut fitting = algorithms
            .iter()
            .filter(|algorithm| algorithm.public_key_alg_id().as_ref() == self.algorithm);
        fitting.any(|one| one.verify_signature(self.bits, message, signature).is_ok())
    }
}

/// The value of the next part, which has this tag.
fn take<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    take_whole(input, tag).map(|(value, _)| value)
}

/// The value of the next part, and the part with its tag and length. Lengths have their shortest form, and at most two
/// bytes: no certificate is longer.
fn take_whole<'a>(input: &mut &'a [u8], tag: u8) -> Option<(&'a [u8], &'a [u8])> {
    let (header, length) = match **input {
        [own, ..] if own != tag => return None,
        [_, length, ..] if length < 0x80 => (2, usize::from(length)),
        [_, 0x81, length, ..] if length >= 0x80 => (3, usize::from(length)),
        [_, 0x82, high, low, ..] if high > 0 => (4, usize::from(high) << 8 | usize::from(low)),
        _ => return None,
    };
    let (part, rest) = input.split_at_checked(header + length)?;
    *input = rest;
    Some((&part[header..], part))
}

/// The bytes of a bit string that leaves no bit unused.
fn bits<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    take(input, BIT_STRING)?.strip_prefix(&[0])
}

/// `YYYYMMDDhhmmss`, which compares as the times do, of this with a `Z`, or of `YYMMDDhhmmssZ`, of 1950 to 2049.
fn time(input: &mut &[u8]) -> Option<String> {
    let text = match take(input, UTC_TIME) {
        Some(text @ [b'0'..=b'4', ..]) => [b"20", text].concat(),
        Some(text) => [b"19", text].concat(),
        None => take(input, GENERALIZED_TIME)?.to_vec(),
    };
    let digits = String::from_utf8(text).ok()?.strip_suffix('Z')?.to_owned();
    let is_time = digits.len() == 14 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_time.then_some(digits)
}

/// As [`time`] reads them.
fn seconds_text(time: UnixTime) -> Option<String> {
    let millis = i64::try_from(time.as_secs()).ok()?.checked_mul(1000)?;
    let text = DateTime::from_millis(millis).try_to_rfc3339_string().ok()?;
    Some(text.chars().filter(char::is_ascii_digit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::SupportedProtocolVersion;
    use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::server::WebPkiClientVerifier;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
    use std::time::Duration;

    const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdTCCARugAwIBAgIUB73ZZcAJ7UmvYKtEYBbMVTPOaO8wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEb3VyczAgFw0yNjExMjUwOTMxMDlaGA8yMTI2MTEwMTA5MzEw
OVowDzENMAsGA1UEAwwEb3VyczBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABBHm
+snhxxtBvzs+oeWtiliKaBlJFrQMZ9ygRH79zoeoUZIrCyXvHw7ZMJWVdaa6ngRP
U5MnNX8xUyKMnW++01qjUzBRMB0GA1UdDgQWBBQ8iDgZPzqJiIB4lA2dwYfR4dZQ
ADAfBgNVHSMEGDAWgBQ8iDgZPzqJiIB4lA2dwYfR4dZQADAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0gAMEUCIEQyLkXuZzmeNxBvXAG+sbzzIUCJ2+DWj1HB
HGIZDHU6AiEAoY6CDFUcoSG2SEM1ZciOwA8TDY2C1cU1sBbvyRuOCA8=
-----END CERTIFICATE-----
";
    /// Of version 1, valid in the 21st century.
    const CLIENT: &str = "\
-----BEGIN CERTIFICATE-----
MIIBCDCBsAIBATAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDARvdXJzMCAXDTAwMDEw
MTAwMDAwMFoYDzIxMDAwMTAxMDAwMDAwWjARMQ8wDQYDVQQDDAZjbGllbnQwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAATc6RIq3kLzFhk01vcfz9CZKiscOhn+Pwm6
6t/nGc4zI7+J5jDu0jxMZkVpmO2Vaj7S5NeeoAGCPSd42aVtvvq1MAoGCCqGSM49
BAMCA0cAMEQCIHCEQVgXApzZOVAyYPPZnkA1jK/TPMLOheOQrepofjt7AiAgH3ty
5bxTVWXAoRIa7fpbfsoaxWBZTg2YOLbFOpckmQ==
-----END CERTIFICATE-----
";
    const CLIENT_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgjTmDXMueKa8ObQni
UqVvqse5mXuvkO0Nxke948jQzEOhRANCAATc6RIq3kLzFhk01vcfz9CZKiscOhn+
Pwm66t/nGc4zI7+J5jDu0jxMZkVpmO2Vaj7S5NeeoAGCPSd42aVtvvq1
-----END PRIVATE KEY-----
";
    const OTHER_KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgux+fD5vQ71hFmRBp
n7c+8H5gTlLE8A63cdHfT9ZkURWhRANCAASlwVPuIbvh6bwBZdA/jRFhAZQKchii
nxiPRGv6QR0a991jDEqu1ECAwth1YBV371P2swqFZMjmrr4YZlQfL1lM
-----END PRIVATE KEY-----
";
    /// 2026-12-01.
    const NOW: u64 = 1_796_083_200;

    fn verifier() -> ClientVerifier {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let (roots, provider) = (Arc::new(roots), Arc::new(default_provider()));
        let webpki = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider);
        ClientVerifier {
            webpki: webpki.build().expect("an authority"),
            roots,
            algorithms: default_provider().signature_verification_algorithms,
        }
    }

    fn verified(certificate: &[u8], seconds: u64) -> Option<Result<(), CertificateError>> {
        let ClientVerifier {
            roots, algorithms, ..
        } = verifier();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let parsed = Version1::parse(certificate)?;
        Some(parsed.verify(&roots.roots, now, algorithms.all))
    }

    fn client() -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(CLIENT.as_bytes()).expect("PEM")
    }

    /// The certificate with a key that may be another's.
    fn certified(key: &str) -> Arc<SingleCertAndKey> {
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let key = default_provider().key_provider.load_private_key(key);
        let certified = CertifiedKey::new(vec![client()], key.expect("a key"));
        Arc::new(SingleCertAndKey::from(certified))
    }

    /// Takes any server for whom it says it is.
    #[derive(Debug)]
    struct AnyServer;

    impl ServerCertVerifier for AnyServer {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            verifier().supported_verify_schemes()
        }
    }

    /// What a server makes of a client that shows the certificate and signs with this key.
    fn handshake(key: &str, version: &'static SupportedProtocolVersion) -> Result<(), Error> {
        let provider = Arc::new(default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[version])?
            .with_client_cert_verifier(Arc::new(verifier()))
            .with_cert_resolver(certified(CLIENT_KEY));
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer))
            .with_client_cert_resolver(certified(key));
        let mut server = ServerConnection::new(Arc::new(server))?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut client = ClientConnection::new(Arc::new(client), name)?;
        while server.is_handshaking() {
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            client.write_tls(&mut to_server).expect("memory");
            server.read_tls(&mut to_server.as_slice()).expect("memory");
            server.process_new_packets()?;
            server.write_tls(&mut to_client).expect("memory");
            client.read_tls(&mut to_client.as_slice()).expect("memory");
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn whoever_shows_it_must_have_its_key() {
        for version in [&TLS12, &TLS13] {
            assert_eq!(handshake(CLIENT_KEY, version), Ok(()));
            let refused = handshake(OTHER_KEY, version);
            let bad_signature = Error::InvalidCertificate(CertificateError::BadSignature);
            assert_eq!(refused, Err(bad_signature), "{version:?}");
        }
    }

    #[test]
    fn a_certificate_of_version_1_is_good_while_it_is_valid() {
        assert_eq!(verified(&client(), NOW), Some(Ok(())));
        assert_eq!(
            verified(&client(), 900_000_000),
            Some(Err(CertificateError::NotValidYet))
        );
        assert_eq!(
            verified(&client(), 5_000_000_000),
            Some(Err(CertificateError::Expired))
        );
    }

    #[test]
    fn a_certificate_of_version_3_is_left_to_webpki() {
        let authority = CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).expect("PEM");
        assert!(Version1::parse(&authority).is_none());
    }

    #[test]
    fn no_changed_or_shortened_certificate_is_good() {
        let certificate = client().to_vec();
        for length in 0..certificate.len() {
            assert!(Version1::parse(&certificate[..length]).is_none());
        }
        assert!(Version1::parse(&[certificate.as_slice(), &[0]].concat()).is_none());
        for position in 0..certificate.len() {
            for bit in 0..8 {
                let mut changed = certificate.clone();
                changed[position] ^= 1 << bit;
                assert_ne!(verified(&changed, NOW), Some(Ok(())), "{position} {bit}");
            }
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        let read = |tag: u8, text: &str| {
            let part = [&[tag, text.len() as u8], text.as_bytes()].concat();
            time(&mut part.as_slice())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read(UTC_TIME, "700101000000Z"), text("19700101000000"));
        assert_eq!(read(UTC_TIME, "491231235959Z"), text("20491231235959"));
        assert_eq!(read(UTC_TIME, "500101000000Z"), text("19500101000000"));
        assert_eq!(
            read(GENERALIZED_TIME, "20500101000000Z"),
            text("20500101000000")
        );
        for wrong in [
            "",
            "Z",
            "7001010000Z",
            "700101000000",
            "70010100000\u{e9}Z",
            "7001010000000Z",
            "-00101000000Z",
        ] {
            assert_eq!(read(UTC_TIME, wrong), None, "{wrong}");
        }
        let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
        assert_eq!(seconds_text(now), text("20261201000000"));
    }
}
