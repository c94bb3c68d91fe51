//! What is kept of passwords.

use super::scram::{Keys, Mechanism};
use bson::cstr;
use bson::raw::RawDocumentBuf;
use md5::{Digest, Md5};
use meridian_engine::{Error, Result};

/// The keys of a password for each mechanism, as a user's document has them. One that is digested already is what
/// [`digest`] makes.
///
/// # Errors
/// `BadValue` for an empty password, 50692 for one that cannot be normalized, `BadValue` for one that is digested where it may not be.
pub fn credentials(
    user: &str,
    password: &str,
    mechanisms: &[Mechanism],
    is_digested: bool,
) -> Result<RawDocumentBuf> {
    if password.is_empty() {
        return Err(Error::bad_value("Password cannot be empty"));
    }
    let mut credentials = RawDocumentBuf::new();
    for mechanism in Mechanism::ALL {
        if !mechanisms.contains(&mechanism) {
            continue;
        }
        let keys = match (mechanism, is_digested) {
            (Mechanism::Sha1, true) => Keys::of_password(mechanism, password.as_bytes()),
            (Mechanism::Sha256, true) => {
                return Err(Error::bad_value(
                    "Use of SCRAM-SHA-256 requires undigested passwords",
                ));
            }
            (_, false) => {
                let prepared = prepared_password(mechanism, user, password)?;
                Keys::of_password(mechanism, prepared.as_bytes())
            }
        };
        let field = match mechanism {
            Mechanism::Sha1 => cstr!("SCRAM-SHA-1"),
            Mechanism::Sha256 => cstr!("SCRAM-SHA-256"),
        };
        credentials.append(field, keys.to_document());
    }
    Ok(credentials)
}

/// The password as a mechanism takes it: normalized by SASLprep, or digested.
///
/// # Errors
/// 50692 for one that cannot be normalized.
pub fn prepared_password(mechanism: Mechanism, user: &str, password: &str) -> Result<String> {
    match mechanism {
        Mechanism::Sha1 => Ok(digest(user, password)),
        Mechanism::Sha256 => match stringprep::saslprep(password) {
            Ok(prepared) => Ok(prepared.into_owned()),
            Err(_) => Err(Error::location(
                50692,
                "Error preflighting normalization: U_STRINGPREP_PROHIBITED_ERROR",
            )),
        },
    }
}

/// The password that MongoDB's SCRAM-SHA-1 takes: a digest of the name and the password.
fn digest(user: &str, password: &str) -> String {
    let digest = Md5::digest(format!("{user}:mongo:{password}").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
