//! The error every engine operation returns, and the one table of MongoDB's codes.
//!
//! An error carries what a driver acts on: MongoDB's numeric code, its code name, a
//! message, and any further fields of the reply (`keyPattern`, `errInfo`, ...).
//! Source of the table: `src/mongo/base/error_codes.yml` of MongoDB 6.0, public names and numbers.

use bson::RawDocumentBuf;
use std::fmt;

/// What every fallible engine operation returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure that belongs to the client: it becomes an `ok: 0` reply or a write error.
#[derive(Debug, Clone)]
pub struct Error {
    /// MongoDB's error code.
    pub code: Code,
    /// The sentence a person reads. Names the offending argument.
    pub message: String,
    /// Further fields that go beside `code` and `errmsg` in the reply (`keyPattern`,
    /// `keyValue`, `errInfo`).
    pub fields: Option<Box<RawDocumentBuf>>,
}

impl Error {
    /// An error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            fields: None,
        }
    }

    /// The same error with further reply fields.
    #[must_use]
    pub fn with_fields(mut self, fields: RawDocumentBuf) -> Self {
        self.fields = Some(Box::new(fields));
        self
    }

    /// `BadValue` (2).
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(Code::BadValue, message)
    }

    /// `InternalError` (1): a fault of ours.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::InternalError, message)
    }

    /// `FailedToParse` (9).
    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(Code::FailedToParse, message)
    }

    /// `TypeMismatch` (14).
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(Code::TypeMismatch, message)
    }

    /// `NotImplemented` (238): an option or operator MongoDB has and Meridian does not yet.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::new(
            Code::NotImplemented,
            format!("{what} is not implemented by Meridian"),
        )
    }

    /// The same error, its message introduced by what was being done: `context :: caused by :: ..`.
    /// What Meridian itself refuses by name stays as it is.
    #[must_use]
    pub fn within(mut self, context: &str) -> Self {
        if !context.is_empty()
            && self.code != Code::NotImplemented
            && !self.message.starts_with(context)
        {
            self.message = format!("{context} :: caused by :: {}", self.message);
        }
        self
    }

    /// An error that MongoDB answers with a message alone.
    pub fn without_code(message: impl Into<String>) -> Self {
        Self::new(Code::Location(0), message)
    }

    /// An error with one of MongoDB's numeric codes that have no name (`Location40353`).
    pub fn location(number: i32, message: impl Into<String>) -> Self {
        Self::new(Code::Location(number), message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}): {}",
            self.code.name(),
            self.code.number(),
            self.message
        )
    }
}

impl std::error::Error for Error {}

macro_rules! codes {
    ($($name:ident = $number:literal),+ $(,)?) => {
        /// MongoDB's error codes that Meridian answers with.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Code {
            $($name,)+
            /// A code without a name: MongoDB calls it `Location<number>`. 0 stands for no code.
            Location(i32),
        }

        impl Code {
            /// The number that drivers act on.
            pub fn number(self) -> i32 {
                match self {
                    $(Code::$name => $number,)+
                    Code::Location(number) => number,
                }
            }

            /// The name, as in the reply's `codeName`.
            pub fn name(self) -> std::borrow::Cow<'static, str> {
                match self {
                    $(Code::$name => stringify!($name).into(),)+
                    Code::Location(number) => format!("Location{number}").into(),
                }
            }
        }
    };
}

codes! {
    InternalError = 1,
    BadValue = 2,
    NoSuchKey = 4,
    GraphContainsCycle = 5,
    HostUnreachable = 6,
    UnknownError = 8,
    FailedToParse = 9,
    UserNotFound = 11,
    UnsupportedFormat = 12,
    RoleNotFound = 31,
    InvalidRoleModification = 49,
    MechanismUnavailable = 334,
    Unauthorized = 13,
    TypeMismatch = 14,
    Overflow = 15,
    InvalidLength = 16,
    ProtocolError = 17,
    AuthenticationFailed = 18,
    IllegalOperation = 20,
    AlreadyInitialized = 23,
    LockTimeout = 24,
    NamespaceNotFound = 26,
    IndexNotFound = 27,
    PathNotViable = 28,
    CannotBackfillArray = 34,
    NotExactValueField = 111,
    NonExistentPath = 29,
    CannotCreateIndex = 67,
    InvalidOptions = 72,
    InvalidNamespace = 73,
    IndexKeySpecsConflict = 86,
    MaxSubPipelineDepthExceeded = 232,
    CannotIndexParallelArrays = 171,
    CannotBuildIndexKeys = 201,
    AmbiguousIndexKeyPattern = 181,
    IndexBuildAborted = 276,
    ConflictingUpdateOperators = 40,
    CursorNotFound = 43,
    NamespaceExists = 48,
    MaxTimeMSExpired = 50,
    DollarPrefixedFieldName = 52,
    InvalidIdField = 53,
    NotSingleValueField = 54,
    EmptyFieldName = 56,
    DottedFieldName = 57,
    CommandNotFound = 59,
    ShardKeyNotFound = 61,
    WriteConcernFailed = 64,
    MultipleErrorsOccurred = 65,
    ImmutableField = 66,
    IndexAlreadyExists = 68,
    AuthSchemaIncompatible = 69,
    OperationFailed = 96,
    CommandNotSupported = 115,
    DocumentValidationFailure = 121,
    JSInterpreterFailure = 139,
    CappedPositionLost = 136,
    CollectionIsEmpty = 162,
    ViewDepthLimitExceeded = 165,
    CommandNotSupportedOnView = 166,
    OptionNotSupportedOnView = 167,
    InvalidPipelineOperator = 168,
    QueryPlanKilled = 175,
    ViewPipelineMaxSizeExceeded = 195,
    UnsupportedOpQueryCommand = 352,
    CannotConvertIndexToUnique = 359,
    IndexOptionsConflict = 85,
    InvalidIndexSpecificationOption = 197,
    IndexBuildAlreadyInProgress = 313,
    QueryFeatureNotAllowed = 224,
    ClientMarkedKilled = 46841,
    NotImplemented = 238,
    CursorKilled = 237,
    ConversionFailure = 241,
    DurationOverflow = 159,
    IncompatibleCollationVersion = 161,
    QueryExceededMemoryLimitNoDiskUseAllowed = 292,
    NoQueryExecutionPlans = 291,
    InvalidUUID = 207,
    OperationNotSupportedInTransaction = 263,
    MaxStalenessOutOfRange = 160,
    WriteConflict = 112,
    Interrupted = 11601,
    InterruptedAtShutdown = 11600,
    ShutdownInProgress = 91,
    OutOfDiskSpace = 14031,
    BSONObjectTooLarge = 10334,
    DuplicateKey = 11000,
    NotWritablePrimary = 10107,
    NoReplicationEnabled = 76,
    NotAReplicaSet = 123,
    CommandFailed = 125,
    APIVersionError = 322,
    APIStrictError = 323,
    APIMismatchError = 347,
    NoSuchTransaction = 251,
    TransactionTooOld = 225,
    IncompatibleServerVersion = 188,
    UnknownReplWriteConcern = 79,
    InvalidBSON = 22,
    Unsatisfiable = 100,
    ExceededMemoryLimit = 146,
    StaleConfig = 13388,
    DatabaseDifferCase = 13297,
    MergeStageNoMatchingDocument = 13113,
}

/// What was read from the store is not BSON: a damaged file, never the client's fault.
pub(crate) fn corrupt_document(error: bson::error::Error) -> Error {
    Error::new(
        Code::InternalError,
        format!("a stored document cannot be read: {error}"),
    )
}

/// What a broken document is to a client: `InvalidBSON`.
pub(crate) fn malformed(error: bson::error::Error) -> Error {
    Error::new(Code::InvalidBSON, error.to_string())
}
