//! Encryption at rest: AES-256 in counter mode for every file of the data directory.
//!
//! The directory has one *data key*. It lies in the file `ENCRYPTION`, wrapped by the *master key*, which only the
//! operator has ([`key_file`]). Each file has a key of its own, derived from the data key and the salt in the file's
//! header, so that no two files share a keystream, and no place of a file is ever written twice:
//!
//! ```text
//! header, 4096 bytes: MAGIC (16)  salt (32)  check (16)  zeros
//! HKDF-SHA-256(data key, salt) → key (32)  initial counter (16)  check (16)
//! byte n of the file, header included, is XORed with byte n of the AES-256-CTR keystream
//! ```
//!
//! The check tells a header that was changed, or made by another data key. Counter mode hides; it does not tell that
//! what it hides was changed: that do the checksums of the formats within.

mod file;
mod key_file;

pub use file::StorageFile;
pub(super) use file::is_encrypted;
pub(super) use key_file::{KeyFile, KeyFileState};

use aes::Aes256;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ctr::cipher::{InnerIvInit as _, KeyInit as _, StreamCipher as _, StreamCipherSeek as _};
use ctr::{Ctr128BE, CtrCore};
use hkdf::Hkdf;
use rand::RngCore as _;
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// A whole page, so that what follows begins at a sector.
pub(super) const HEADER_BYTES: usize = 4096;
const MAGIC: &[u8; 16] = b"MERIDIAN AES-CTR";
const SALT_BYTES: usize = 32;
const CHECK_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
/// AES's block, and with it the counter.
const BLOCK_BYTES: usize = 16;
/// What the derived bytes are for, as HKDF wants it said.
const PURPOSE: &[u8] = b"meridian file 1";

/// The key that wraps a directory's data key. Never written by us, nor shown.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; KEY_BYTES]>);

impl MasterKey {
    /// Of 32 bytes in base64; white space around them does not count.
    ///
    /// # Errors
    /// In words, when it is something else.
    pub fn from_base64(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD
            .decode(text.trim())
            .map(Zeroizing::new)
            .map_err(|_| "a master key is 32 bytes in base64, and this is not base64".to_owned())?;
        let key = <[u8; KEY_BYTES]>::try_from(bytes.as_slice()).map_err(|_| {
            format!(
                "a master key is 32 bytes in base64, and this is {} bytes",
                bytes.len()
            )
        })?;
        Ok(Self(Zeroizing::new(key)))
    }

    #[cfg(test)]
    pub(super) fn for_tests(byte: u8) -> Self {
        Self(Zeroizing::new([byte; KEY_BYTES]))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("MasterKey")
    }
}

impl PartialEq for MasterKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice() == other.0.as_slice()
    }
}

impl Eq for MasterKey {}

/// The key of a data directory, from which those of its files are derived.
pub struct DataKey(Zeroizing<[u8; KEY_BYTES]>);

impl DataKey {
    fn random() -> Self {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        rand::rng().fill_bytes(key.as_mut_slice());
        Self(key)
    }

    /// The header of a file that does not exist yet.
    pub fn new_header(&self) -> [u8; HEADER_BYTES] {
        let mut salt = [0; SALT_BYTES];
        rand::rng().fill_bytes(&mut salt);
        let (_, check) = self.derive(&salt);
        let mut header = [0; HEADER_BYTES];
        let parts = MAGIC.iter().chain(&salt).chain(&check);
        for (byte, part) in header.iter_mut().zip(parts) {
            *byte = *part;
        }
        header
    }

    /// The keystream of the file with this header; `None` when another key made the header, or it was changed.
    pub fn keystream(&self, header: &[u8]) -> Option<Keystream> {
        let header = header.strip_prefix(MAGIC)?;
        let (salt, rest) = header.split_first_chunk::<SALT_BYTES>()?;
        let (found, rest) = rest.split_first_chunk::<CHECK_BYTES>()?;
        let zeros = HEADER_BYTES - MAGIC.len() - SALT_BYTES - CHECK_BYTES;
        let (stream, check) = self.derive(salt);
        let is_whole = rest.len() == zeros && rest.iter().all(|byte| *byte == 0);
        (is_whole && *found == check).then_some(stream)
    }

    fn derive(&self, salt: &[u8]) -> (Keystream, [u8; CHECK_BYTES]) {
        let mut derived = Zeroizing::new([0; KEY_BYTES + BLOCK_BYTES + CHECK_BYTES]);
        Hkdf::<Sha256>::new(Some(salt), self.0.as_slice())
            .expand(PURPOSE, derived.as_mut_slice())
            .expect("HKDF gives so many bytes");
        let (key, rest) = derived.split_at(KEY_BYTES);
        let (counter, check) = rest.split_at(BLOCK_BYTES);
        let stream = Keystream {
            cipher: Aes256::new_from_slice(key).expect("the length of a key"),
            counter: counter.try_into().expect("the length of a block"),
        };
        (stream, check.try_into().expect("the length of a check"))
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DataKey")
    }
}

/// What a file's bytes are XORed with.
pub struct Keystream {
    cipher: Aes256,
    counter: [u8; BLOCK_BYTES],
}

impl Keystream {
    /// Encrypts, or decrypts, what lies at `offset` of the file, its header included.
    pub fn apply(&self, offset: u64, data: &mut [u8]) {
        let core = CtrCore::inner_iv_init(self.cipher.clone(), &self.counter.into());
        let mut stream = Ctr128BE::<Aes256>::from_core(core);
        stream.seek(offset);
        stream.apply_keystream(data);
    }
}

impl fmt::Debug for Keystream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keystream")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_key_is_32_bytes_in_base64() {
        let key = BASE64_STANDARD.encode([7; 32]);
        assert_eq!(
            MasterKey::from_base64(&format!(" {key}\n")),
            Ok(MasterKey::for_tests(7))
        );
        for (wrong, says) in [
            ("", "this is 0 bytes"),
            ("?", "not base64"),
            (&BASE64_STANDARD.encode([7; 31]), "this is 31 bytes"),
            (&BASE64_STANDARD.encode([7; 33]), "this is 33 bytes"),
            (&BASE64_STANDARD.encode([7; 32_000]), "this is 32000 bytes"),
        ] {
            let error = MasterKey::from_base64(wrong).unwrap_err();
            assert!(error.contains(says) && !error.contains("BwcH"), "{error}");
        }
        assert_eq!(
            format!("{:?}", MasterKey::from_base64(&key).unwrap()),
            "MasterKey"
        );
    }

    /// The keystream is that of NIST SP 800-38A, F.5.5 (CTR-AES256.Encrypt), at every place and length.
    #[test]
    fn the_keystream_is_aes_256_in_counter_mode_anywhere() {
        let hex = |text: &str| -> Vec<u8> {
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let pairs = digits.chunks(2);
            pairs
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        };
        let key = hex("603deb1015ca71be2b73aef0857d7781 1f352c073b6108d72d9810a30914dff4");
        let plain = hex(
            "6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51
             30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710",
        );
        let cipher = hex(
            "601ec313775789a5b7a7f504bbf3d228 f443e3ca4d62b59aca84e990cacaf5c5
             2b0930daa23de94ce87017ba2d84988d dfc9c58db67aada613c2dd08457941a6",
        );
        let stream = Keystream {
            cipher: Aes256::new_from_slice(&key).unwrap(),
            counter: hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff").try_into().unwrap(),
        };
        for from in 0..plain.len() {
            for to in from..=plain.len() {
                let mut bytes = plain[from..to].to_vec();
                stream.apply(from as u64, &mut bytes);
                assert_eq!(bytes, cipher[from..to]);
            }
        }
    }

    #[test]
    fn no_bit_of_a_header_may_change_and_no_two_files_share_a_keystream() {
        let key = DataKey::random();
        let header = key.new_header();
        let zeros = |header: &[u8]| {
            let mut bytes = vec![0; 100];
            key.keystream(header).unwrap().apply(5000, &mut bytes);
            bytes
        };
        assert_eq!(zeros(&header), zeros(&header));
        assert_ne!(zeros(&header), zeros(&key.new_header()));
        assert!(DataKey::random().keystream(&header).is_none());
        for at in 0..HEADER_BYTES {
            let mut changed = header;
            changed[at] ^= 1 << (at % 8);
            assert!(key.keystream(&changed).is_none(), "byte {at}");
        }
        for length in [0, 15, 16, 63, 64, 4095] {
            assert!(key.keystream(&header[..length]).is_none());
        }
    }
}
