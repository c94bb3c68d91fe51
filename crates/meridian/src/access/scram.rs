//! SCRAM, both sides: RFC 5802, with SHA-1 and SHA-256 (RFC 7677).
//!
//! In: what the client says, and the keys that are kept of a password. Out: what the server answers, and whether
//! the client knows the password. The password itself is never sent, and cannot be had from the keys.
//!
//! ```text
//! client  n,,n=user,r=nonce
//! server  r=nonce and more,s=salt,i=iterations
//! client  c=biws,r=nonce and more,p=proof
//! server  v=signature
//! ```

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{cstr, rawdoc};
use hmac::{Hmac, KeyInit, Mac};
use meridian_engine::{Code, Error, Result};
use sha1::{Digest, Sha1};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// A kind of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// `SCRAM-SHA-1`.
    Sha1,
    /// `SCRAM-SHA-256`.
    Sha256,
}

/// The longest message of a client: names and nonces are much shorter.
const MESSAGE_BYTES_MAX: usize = 4096;
const NONCE_BYTES: usize = 24;
/// What a client does for a server: RFC 5802 wants 4,096 iterations at least, and more than this takes seconds.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=10_000_000;

impl Mechanism {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Sha1, Self::Sha256];

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    /// As clients write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    /// MongoDB's defaults.
    pub fn iterations(self) -> u32 {
        match self {
            Self::Sha1 => 10_000,
            Self::Sha256 => 15_000,
        }
    }

    /// MongoDB's: with the four bytes of a block's number they fill a block.
    fn salt_bytes(self) -> usize {
        match self {
            Self::Sha1 => 16,
            Self::Sha256 => 28,
        }
    }

    fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        macro_rules! of {
            ($hash:ty) => {{
                let mut mac = <Hmac<$hash> as KeyInit>::new_from_slice(key)
                    .expect("a key of any length will do");
                mac.update(message);
                mac.finalize().into_bytes().to_vec()
            }};
        }
        match self {
            Self::Sha1 => of!(Sha1),
            Self::Sha256 => of!(Sha256),
        }
    }

    fn salted(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.hash(b"").len()];
        match self {
            Self::Sha1 => pbkdf2::pbkdf2_hmac::<Sha1>(password, salt, iterations, &mut salted),
            Self::Sha256 => pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted),
        }
        salted
    }
}

/// What is kept of a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Keys {
    /// Those of a password as the mechanism has it, with a new salt.
    pub fn of_password(mechanism: Mechanism, password: &[u8]) -> Self {
        let mut salt = vec![0; mechanism.salt_bytes()];
        rand::fill(salt.as_mut_slice());
        let iterations = mechanism.iterations();
        Self::derived(mechanism, password, salt, iterations)
    }

    fn derived(mechanism: Mechanism, password: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let salted = mechanism.salted(password, &salt, iterations);
        Self {
            stored_key: mechanism.hash(&mechanism.hmac(&salted, b"Client Key")),
            server_key: mechanism.hmac(&salted, b"Server Key"),
            iterations,
            salt,
        }
    }

    /// Keys that no password has, always the same for a name: whether there is a user cannot be told from them.
    pub fn of_nobody(mechanism: Mechanism, secret: &[u8], name: &str) -> Self {
        let mut salt = Mechanism::Sha256.hmac(secret, name.as_bytes());
        salt.truncate(mechanism.salt_bytes());
        let key = mechanism.hash(secret);
        Self {
            iterations: mechanism.iterations(),
            salt,
            stored_key: key.clone(),
            server_key: key,
        }
    }

    /// As MongoDB keeps them.
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = rawdoc! {
            "iterationCount": i32::try_from(self.iterations).unwrap_or(i32::MAX),
        };
        document.append(cstr!("salt"), BASE64_STANDARD.encode(&self.salt));
        document.append(cstr!("storedKey"), BASE64_STANDARD.encode(&self.stored_key));
        document.append(cstr!("serverKey"), BASE64_STANDARD.encode(&self.server_key));
        document
    }

    /// What [`Self::to_document`] made, here or in MongoDB; `None` for anything else.
    pub fn from_document(document: &RawDocument) -> Option<Self> {
        let bytes = |name| BASE64_STANDARD.decode(document.get_str(name).ok()?).ok();
        let iterations = document.get_i32("iterationCount").ok()?;
        Some(Self {
            iterations: u32::try_from(iterations).ok()?,
            salt: bytes("salt")?,
            stored_key: bytes("storedKey")?,
            server_key: bytes("serverKey")?,
        })
    }
}

/// A login under way.
#[derive(Debug)]
pub struct Conversation {
    mechanism: Mechanism,
    keys: Keys,
    nonce: String,
    /// The client's and the server's first messages, as they are signed.
    signed: String,
}

/// The client's first message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst<'a> {
    /// Who it says it is.
    pub user: String,
    nonce: &'a str,
    bare: &'a str,
}

impl<'a> ClientFirst<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// `AuthenticationFailed`, whatever is wrong with it.
    pub fn parse(payload: &'a [u8]) -> Result<Self> {
        let text = text_of(payload)?;
        // No channel binding: the client cannot do it, or thinks that we cannot.
        let bare = text.strip_prefix("n,").or_else(|| text.strip_prefix("y,"));
        let (authorized_as, bare) = bare
            .and_then(|rest| rest.split_once(','))
            .ok_or_else(failed)?;
        let (user, rest) = bare
            .strip_prefix("n=")
            .and_then(|rest| rest.split_once(','))
            .ok_or_else(failed)?;
        let nonce = rest.strip_prefix("r=").ok_or_else(failed)?;
        let nonce = nonce.split(',').next().unwrap_or_default();
        let is_other = !matches!(authorized_as.strip_prefix("a="), None | Some(""))
            && authorized_as.strip_prefix("a=") != Some(user);
        if nonce.is_empty() || is_other {
            return Err(failed());
        }
        Ok(Self {
            user: unescaped(user)?,
            nonce,
            bare,
        })
    }
}

impl Conversation {
    /// Begins a login; returns the server's first message too.
    pub fn begin(mechanism: Mechanism, first: &ClientFirst<'_>, keys: Keys) -> (Self, Vec<u8>) {
        let mut own = [0; NONCE_BYTES];
        rand::fill(&mut own);
        let nonce = format!("{}{}", first.nonce, BASE64_STANDARD.encode(own));
        let salt = BASE64_STANDARD.encode(&keys.salt);
        let server_first = format!("r={nonce},s={salt},i={}", keys.iterations);
        let signed = format!("{},{server_first}", first.bare);
        let begun = Self {
            mechanism,
            keys,
            nonce,
            signed,
        };
        (begun, server_first.into_bytes())
    }

    /// Checks the client's proof; returns the server's last message.
    ///
    /// # Errors
    /// `AuthenticationFailed` for a wrong proof, and for anything that is none.
    pub fn finish(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let text = text_of(payload)?;
        let (unproven, proof) = text.rsplit_once(",p=").ok_or_else(failed)?;
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| failed())?;
        let mut parts = unproven.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        // `n,,` and `y,,`.
        if !matches!(binding, Some("biws" | "eSws")) || nonce != Some(self.nonce.as_str()) {
            return Err(failed());
        }
        let message = format!("{},{unproven}", self.signed);
        let (mechanism, keys) = (self.mechanism, &self.keys);
        let signature = mechanism.hmac(&keys.stored_key, message.as_bytes());
        if proof.len() != signature.len() {
            return Err(failed());
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let stored_key = mechanism.hash(&client_key);
        if !bool::from(stored_key.ct_eq(&keys.stored_key)) {
            return Err(failed());
        }
        let signature = mechanism.hmac(&keys.server_key, message.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(signature)).into_bytes())
    }
}

/// What a client is told, whatever was wrong.
pub fn failed() -> Error {
    Error::new(Code::AuthenticationFailed, "Authentication failed.")
}

fn text_of(payload: &[u8]) -> Result<&str> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return Err(failed());
    }
    std::str::from_utf8(payload).map_err(|_| failed())
}

/// The client's side of a login.
#[derive(Debug)]
pub struct ClientConversation {
    mechanism: Mechanism,
    nonce: String,
    /// The first message without what tells of channel binding.
    bare: String,
}

impl ClientConversation {
    /// Begins a login; returns the client's first message too.
    pub fn begin(mechanism: Mechanism, user: &str) -> (Self, String) {
        let mut own = [0; NONCE_BYTES];
        rand::fill(&mut own);
        let nonce = BASE64_STANDARD.encode(own);
        let escaped = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={escaped},r={nonce}");
        let first = format!("n,,{bare}");
        let begun = Self {
            mechanism,
            nonce,
            bare,
        };
        (begun, first)
    }

    /// From the server's first message and the password as the mechanism takes it: the client's last message, and what
    /// the server has to answer. `None` when that message is not one.
    pub fn prove(&self, server_first: &[u8], password: &[u8]) -> Option<(String, String)> {
        let server_first = std::str::from_utf8(server_first).ok()?;
        let mut parts = server_first.split(',');
        let nonce = parts.next()?.strip_prefix("r=")?;
        let salt = BASE64_STANDARD
            .decode(parts.next()?.strip_prefix("s=")?)
            .ok()?;
        let iterations: u32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        if !nonce.starts_with(&self.nonce) || !ITERATIONS.contains(&iterations) {
            return None;
        }
        let mechanism = self.mechanism;
        let salted = mechanism.salted(password, &salt, iterations);
        let client_key = mechanism.hmac(&salted, b"Client Key");
        let unproven = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{unproven}", self.bare);
        let signature = mechanism.hmac(&mechanism.hash(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let server_key = mechanism.hmac(&salted, b"Server Key");
        let answer = mechanism.hmac(&server_key, message.as_bytes());
        Some((
            format!("{unproven},p={}", BASE64_STANDARD.encode(proof)),
            format!("v={}", BASE64_STANDARD.encode(answer)),
        ))
    }
}

/// A name in which `=2C` stands for a comma and `=3D` for an equals sign.
fn unescaped(name: &str) -> Result<String> {
    let mut parts = name.split('=');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(failed()),
        };
        whole.push(sign);
        whole.push_str(rest);
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3, and that of RFC 5802, section 5.
    #[test]
    fn the_examples_of_the_standards_are_accepted() {
        let examples = [
            (
                Mechanism::Sha256,
                "W22ZaJ0SNY7soEsUEjb6gQ==",
                "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
                "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
                "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                 p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
                "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            ),
            (
                Mechanism::Sha1,
                "QSXCR+Q6sek8bf92",
                "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
                "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j",
                "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
                "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            ),
        ];
        for (mechanism, salt, first, nonce, last, answer) in examples {
            let salt = BASE64_STANDARD.decode(salt).unwrap();
            let keys = Keys::derived(mechanism, b"pencil", salt, 4096);
            let first = ClientFirst::parse(first.as_bytes()).unwrap();
            let (mut begun, _) = Conversation::begin(mechanism, &first, keys.clone());
            let server_first = format!("r={nonce},s={},i=4096", BASE64_STANDARD.encode(&keys.salt));
            begun.nonce = nonce.to_owned();
            begun.signed = format!("{},{server_first}", first.bare);
            assert_eq!(begun.finish(last.as_bytes()).unwrap(), answer.as_bytes());
            let wrong = last.replace(",p=", ",x=1,p=");
            assert!(begun.finish(wrong.as_bytes()).is_err());
            assert_eq!(Keys::from_document(&keys.to_document()), Some(keys));
        }
    }

    #[test]
    fn a_client_that_knows_the_password_gets_in() {
        for mechanism in Mechanism::ALL {
            let keys = Keys::of_password(mechanism, b"pencil");
            for (password, gets_in) in [("pencil", true), ("pen", false)] {
                let (client, first) = ClientConversation::begin(mechanism, "a,b=c");
                let parsed = ClientFirst::parse(first.as_bytes()).unwrap();
                assert_eq!(parsed.user, "a,b=c");
                let (server, answer) = Conversation::begin(mechanism, &parsed, keys.clone());
                let (last, signature) = client.prove(&answer, password.as_bytes()).unwrap();
                let ended = server.finish(last.as_bytes());
                assert_eq!(ended.is_ok(), gets_in);
                assert!(!gets_in || ended.unwrap() == signature.as_bytes());
                // Somebody between that answers for the server, or asks for a weak key.
                let text = String::from_utf8(answer).unwrap();
                for wrong in [
                    text.replacen("r=", "r=x", 1),
                    text.replace(",i=", ",i=1,x="),
                    "e=other-error".to_owned(),
                    String::new(),
                ] {
                    assert!(
                        client.prove(wrong.as_bytes(), b"pencil").is_none(),
                        "{wrong}"
                    );
                }
            }
        }
    }

    /// Changed, cut, joined and random messages: nobody gets in, and nothing panics.
    #[test]
    fn no_message_gets_in_but_the_right_one() {
        use rand::prelude::*;
        let seed: u64 = std::env::var("MERIDIAN_FUZZ_SEED")
            .map_or(20_261_127, |seed| seed.parse().expect("a number"));
        println!("seed {seed}");
        let mut random = rand::rngs::StdRng::seed_from_u64(seed);
        let keys = Keys::derived(Mechanism::Sha256, b"pencil", vec![7; 28], 1);
        let first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO".to_vec();
        for _ in 0..100_000 {
            let changed = mutated(&mut random, &first);
            let begun = ClientFirst::parse(&changed).ok();
            let parsed = begun.unwrap_or_else(|| ClientFirst::parse(&first).expect("it is right"));
            let (conversation, answer) =
                Conversation::begin(Mechanism::Sha256, &parsed, keys.clone());
            let answer = String::from_utf8(answer).expect("text");
            let nonce = answer.split(',').next().expect("a part");
            let mut proof = [0; 32];
            random.fill(&mut proof);
            let last = format!("c=biws,{nonce},p={}", BASE64_STANDARD.encode(proof));
            assert!(conversation.finish(last.as_bytes()).is_err());
            let last = mutated(&mut random, last.as_bytes());
            assert!(conversation.finish(&last).is_err(), "{last:?}");
        }
    }

    fn mutated(random: &mut impl rand::Rng, message: &[u8]) -> Vec<u8> {
        let mut bytes = message.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..=bytes.len());
            match random.random_range(0..5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, random.random()),
                2 => bytes.insert(
                    at,
                    *b",=nrcpavm".get(random.random_range(0..9)).expect("nine"),
                ),
                3 if at < bytes.len() => bytes[at] = random.random(),
                _ => bytes.extend_from_slice(&message[..at.min(message.len())]),
            }
        }
        bytes
    }

    #[test]
    fn what_is_no_first_message_is_refused() {
        let refused = [
            "",
            "n,,",
            "n,,n=user",
            "n,,n=user,r=",
            "p=tls-unique,,n=user,r=abc",
            "n,a=other,n=user,r=abc",
            "n,,n=a=b,r=abc",
            "x,,n=user,r=abc",
        ];
        for text in refused {
            assert!(ClientFirst::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(ClientFirst::parse(&[0xff; 10]).is_err());
        let long = format!("n,,n={},r=abc", "x".repeat(MESSAGE_BYTES_MAX));
        assert!(ClientFirst::parse(long.as_bytes()).is_err());
        let parsed = ClientFirst::parse(b"n,,n=a=2Cb=3Dc,r=abc").unwrap();
        assert_eq!(parsed.user, "a,b=c");
    }
}
