//! The client's side of a login, for the tools that talk to a server.

use super::UserName;
use super::credentials::prepared_password;
use super::scram::{ClientConversation, Mechanism};
use anyhow::{Context as _, bail};
use bson::raw::{RawBsonRef, RawDocumentBuf};
use bson::spec::BinarySubtype;
use bson::{Binary, rawdoc};
use clap::Args;
use meridian_bench::client::Client;
use percent_encoding::percent_decode_str;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Who a tool logs in as.
#[derive(Debug, Clone, Default, Args)]
#[command(rename_all = "camelCase")]
pub struct LoginArguments {
    /// User to log in as (or in the URI: mongodb://USER@HOST)
    #[arg(short, long, value_name = "NAME")]
    username: Option<String>,

    /// File whose first line is the password [default: asked for on the terminal]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Database of the user [default: that in the URI (its authSource, or its path), or `admin`]
    #[arg(long, value_name = "NAME")]
    authentication_database: Option<String>,
}

/// A user and its password.
#[derive(Clone)]
pub struct Credentials {
    name: UserName,
    password: Zeroizing<String>,
}

impl LoginArguments {
    /// Whom to log in, and how; `None` when nobody is named.
    ///
    /// # Errors
    /// When the password cannot be had.
    pub fn credentials(&self, uri: Option<&str>) -> anyhow::Result<Option<Credentials>> {
        let in_uri = uri.map(UriLogin::parse).transpose()?.unwrap_or_default();
        let Some(user) = self.username.clone().or(in_uri.user) else {
            return Ok(None);
        };
        let database = self.authentication_database.clone().or(in_uri.database);
        let password = match (&self.password_file, in_uri.password) {
            (Some(path), _) => first_line(path)?,
            (None, Some(password)) => password,
            (None, None) => rpassword::prompt_password(format!("Password of {user}: "))
                .context("cannot ask for the password here: give --passwordFile")?,
        };
        Ok(Some(Credentials {
            name: UserName {
                user,
                database: database.unwrap_or_else(|| "admin".to_owned()),
            },
            password: Zeroizing::new(password),
        }))
    }
}

/// The first line of a file that holds a password.
///
/// # Errors
/// When it cannot be read.
pub fn first_line(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the password from {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// What a URI says of a login.
#[derive(Debug, Default, PartialEq, Eq)]
struct UriLogin {
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
}

/// A URI as one who does not log in would write it.
pub fn without_login(uri: &str) -> String {
    let Some(rest) = uri.strip_prefix("mongodb://") else {
        return uri.to_owned();
    };
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    let address = rest[..authority].rfind('@').map_or(0, |at| at + 1);
    format!("mongodb://{}", &rest[address..])
}

impl UriLogin {
    fn parse(uri: &str) -> anyhow::Result<Self> {
        let decoded = |text: &str| -> anyhow::Result<String> {
            let text = percent_decode_str(text).decode_utf8();
            Ok(text.context("the URI is not UTF-8")?.into_owned())
        };
        let rest = uri.trim_start_matches("mongodb://");
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let Some((login, _)) = authority.rsplit_once('@') else {
            return Ok(Self::default());
        };
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decoded(password)?)),
            None => (login, None),
        };
        let mut options = options.split('&');
        let source = options.find_map(|option| option.strip_prefix("authSource="));
        let database = source.or((!path.is_empty()).then_some(path));
        Ok(Self {
            user: Some(decoded(user)?),
            password,
            database: database.map(decoded).transpose()?,
        })
    }
}

impl Credentials {
    /// Logs a connection in, by the stronger of the mechanisms that the user has.
    ///
    /// # Errors
    /// What the server says against it; a server that does not know the password either.
    pub fn log_in(&self, client: &mut Client) -> anyhow::Result<()> {
        self.try_log_in(client)
            .with_context(|| format!("cannot log in as {}", self.name))
    }

    fn try_log_in(&self, client: &mut Client) -> anyhow::Result<()> {
        let asked = rawdoc! { "hello": 1, "saslSupportedMechs": self.name.id(), "$db": "admin" };
        let hello = client.command(&asked)?;
        let has_strong = match hello.get("saslSupportedMechs") {
            Ok(Some(RawBsonRef::Array(known))) => known
                .into_iter()
                .flatten()
                .any(|name| name.as_str() == Some(Mechanism::Sha256.name())),
            _ => true,
        };
        let mechanism = match has_strong {
            true => Mechanism::Sha256,
            false => Mechanism::Sha1,
        };
        let password = prepared_password(mechanism, &self.name.user, &self.password)
            .map_err(|error| anyhow::anyhow!("{}", error.message))?;
        let (conversation, first) = ClientConversation::begin(mechanism, &self.name.user);
        let start = rawdoc! {
            "saslStart": 1, "mechanism": mechanism.name(), "payload": binary(first.as_bytes()),
            "options": { "skipEmptyExchange": true }, "$db": self.name.database.as_str(),
        };
        let begun = client.command(&start)?;
        let (last, signature) = conversation
            .prove(&payload(&begun)?, password.as_bytes())
            .context("the server's first message of the login is not one")?;
        let go_on = rawdoc! {
            "saslContinue": 1, "conversationId": begun.get_i32("conversationId")?,
            "payload": binary(last.as_bytes()), "$db": self.name.database.as_str(),
        };
        let ended = client.command(&go_on)?;
        if payload(&ended)? != signature.as_bytes() {
            bail!("the server does not know the password itself");
        }
        match ended.get_bool("done") {
            Ok(true) => Ok(()),
            _ => bail!("the server did not end the login"),
        }
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

fn payload(reply: &RawDocumentBuf) -> anyhow::Result<Vec<u8>> {
    Ok(reply.get_binary("payload")?.bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_says_who_logs_in_and_where() {
        let parse = |uri| UriLogin::parse(uri).expect("a URI");
        let login = |user: &str, password: Option<&str>, database: Option<&str>| UriLogin {
            user: Some(user.to_owned()),
            password: password.map(str::to_owned),
            database: database.map(str::to_owned),
        };
        assert_eq!(parse("mongodb://h:1/d?w=1"), UriLogin::default());
        assert_eq!(parse("mongodb://ann@h"), login("ann", None, None));
        let whole = parse("mongodb://a%40b:p%3Aw@h:1/d?w=1");
        assert_eq!(whole, login("a@b", Some("p:w"), Some("d")));
        let source = parse("mongodb://ann:x@h/d?w=1&authSource=other");
        assert_eq!(source, login("ann", Some("x"), Some("other")));
        assert!(UriLogin::parse("mongodb://%ff@h").is_err());
    }
}
