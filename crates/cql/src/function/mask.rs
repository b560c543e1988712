//! Functions that mask values: `mask_null`, `mask_default`, `mask_replace`, `mask_inner`, `mask_outer`,
//! `mask_hash`.
//!
//! Unlike other functions they are also called with null arguments. Source: results of Cassandra 5.0, and its
//! documentation, "Dynamic Data Masking".

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use catalog::ColumnMask;
use md5::{Digest, Md5};
use model::CqlType;
use model::types::{CqlValue, Duration};
use protocol::CqlError;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::resolve::Signature;
use crate::error::invalid;
use crate::term::{Env, ScalarFunction};

const NAMES: [&str; 6] =
    ["mask_null", "mask_default", "mask_replace", "mask_inner", "mask_outer", "mask_hash"];
const MASKED_TEXT: &str = "****";
const PADDING: &str = "*";
/// The first timeuuid of 1970.
const FIRST_TIME_UUID: u128 = 0x1381_4000_1dd2_11b2_8080_8080_8080_8080;

/// Whether a function masks values.
pub fn is_mask(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The mask of a column, ready to be applied to its values.
#[derive(Clone)]
pub struct Masker {
    run: Arc<ScalarFunction>,
    /// The arguments after the value.
    arguments: Vec<Option<Vec<u8>>>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({:?})", self.arguments)
    }
}

impl Masker {
    /// A stored mask that this build does not know shows nothing of the value.
    pub fn new(mask: &ColumnMask, column: &CqlType) -> Self {
        let types = std::iter::once(column).chain(mask.arguments.iter().map(|argument| &argument.ty));
        let types: Vec<_> = types.map(|ty| Some(ty.clone())).collect();
        let signature = overload(&mask.function, &types).and_then(|mut overloads| overloads.pop());
        let hidden: Arc<ScalarFunction> = Arc::new(|_: &Env<'_>, _: &[Option<Cow<'_, [u8]>>]| Ok(None));
        let run = signature.filter(|found| found.args.len() == types.len()).map_or(hidden, |found| found.run);
        let arguments = mask.arguments.iter().map(|argument| argument.value.clone()).collect();
        Self { run, arguments }
    }

    /// The value as users without UNMASK see it.
    pub fn mask(&self, value: Option<Cow<'_, [u8]>>) -> Result<Option<Vec<u8>>, CqlError> {
        let arguments = self.arguments.iter().map(|argument| argument.as_deref().map(Cow::Borrowed));
        let all: Vec<_> = std::iter::once(value).chain(arguments).collect();
        (self.run)(&Env { bound: &[], inputs: &[], now_us: 0, random: &|| 0 }, &all)
    }
}

type Args<'a, 'v> = &'a [Option<Cow<'v, [u8]>>];

/// Returns the overload for these arguments; `None` if the name is not that of a masking function.
pub fn overload(name: &str, args: &[Option<CqlType>]) -> Option<Vec<Signature>> {
    if !NAMES.contains(&name) {
        return None;
    }
    let first = args.first().and_then(Option::as_ref).map(|ty| ty.without_reversed().clone());
    let signature = match (name, first) {
        ("mask_null", Some(ty)) => of(name, vec![ty.clone()], ty, |_| Ok(None)),
        ("mask_default", Some(ty)) => {
            let masked = masked(&ty).encode(&ty).ok()?;
            of(name, vec![ty.clone()], ty, move |_| Ok(Some(masked.clone())))
        }
        ("mask_replace", Some(ty)) => {
            let second = |args: Args<'_, '_>| Ok(args[1].as_deref().map(<[u8]>::to_vec));
            of(name, vec![ty.clone(), ty.clone()], ty, second)
        }
        ("mask_hash", Some(ty)) => {
            let types = [ty, CqlType::Text].into_iter().take(args.len().max(1)).collect();
            of(name, types, CqlType::Blob, hash)
        }
        ("mask_inner" | "mask_outer", first) => {
            let is_inner = name == "mask_inner";
            let text = if first == Some(CqlType::Ascii) { CqlType::Ascii } else { CqlType::Text };
            let mut types = vec![text.clone(), CqlType::Int, CqlType::Int];
            types.extend((args.len() > 3).then_some(CqlType::Text));
            let full_name = format!("system.{name}");
            of(name, types, text, move |args| part(args, is_inner, &full_name))
        }
        _ => return Some(vec![]),
    };
    Some(vec![signature])
}

fn of(
    name: &str,
    args: Vec<CqlType>,
    result: CqlType,
    run: impl Fn(Args<'_, '_>) -> Result<Option<Vec<u8>>, CqlError> + Send + Sync + 'static,
) -> Signature {
    let run = Arc::new(move |_: &Env<'_>, args: &[Option<Cow<'_, [u8]>>]| run(args));
    Signature { name: name.into(), args, result, is_pure: true, run, user: None }
}

/// Returns the value that masks any value of the type.
fn masked(ty: &CqlType) -> CqlValue {
    match ty.without_reversed() {
        CqlType::Ascii | CqlType::Text => CqlValue::Text(MASKED_TEXT.to_string()),
        CqlType::Boolean => CqlValue::Boolean(false),
        CqlType::TinyInt => CqlValue::TinyInt(0),
        CqlType::SmallInt => CqlValue::SmallInt(0),
        CqlType::Int => CqlValue::Int(0),
        CqlType::BigInt | CqlType::Counter => CqlValue::BigInt(0),
        CqlType::Varint => CqlValue::Varint(0.into()),
        CqlType::Decimal => CqlValue::Decimal { unscaled: 0.into(), scale: 0 },
        CqlType::Float => CqlValue::Float(0.0),
        CqlType::Double => CqlValue::Double(0.0),
        CqlType::Date => CqlValue::Date(1 << 31),
        CqlType::Time => CqlValue::Time(0),
        CqlType::Timestamp => CqlValue::Timestamp(0),
        CqlType::Duration => CqlValue::Duration(Duration { months: 0, days: 0, nanoseconds: 0 }),
        CqlType::Uuid => CqlValue::Uuid([0; 16]),
        CqlType::TimeUuid => CqlValue::Uuid(FIRST_TIME_UUID.to_be_bytes()),
        CqlType::Inet => CqlValue::Inet(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        CqlType::List { .. } => CqlValue::List(vec![]),
        CqlType::Set { .. } => CqlValue::Set(vec![]),
        CqlType::Map { .. } => CqlValue::Map(vec![]),
        CqlType::Tuple(fields) => CqlValue::Tuple(fields.iter().map(|ty| Some(masked(ty))).collect()),
        CqlType::Udt { user, .. } => {
            CqlValue::Tuple(user.fields.iter().map(|field| Some(masked(&field.field_type))).collect())
        }
        CqlType::Vector { element, dimension } => {
            CqlValue::List(vec![masked(element); usize::try_from(*dimension).unwrap_or(0)])
        }
        _ => CqlValue::Blob(vec![]),
    }
}

/// Masks a part of a text: the characters between the first and the last ones if `is_inner`, otherwise the
/// first and the last ones.
fn part(args: Args<'_, '_>, is_inner: bool, name: &str) -> Result<Option<Vec<u8>>, CqlError> {
    let text = |at: usize| args.get(at).and_then(Option::as_deref).map(String::from_utf8_lossy);
    let padding = text(3).unwrap_or(Cow::Borrowed(PADDING));
    let length = padding.chars().count();
    if length != 1 {
        return invalid!(
            "The padding argument for function {name} should be single-character, but '{padding}' has {length} characters."
        );
    }
    let Some(value) = text(0) else { return Ok(None) };
    let count = |at: usize| -> i64 {
        let bytes = args.get(at).and_then(Option::as_deref).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        bytes.map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes)))
    };
    let (first, last) = (count(1), count(2));
    let end = i64::try_from(value.chars().count()).unwrap_or(i64::MAX) - last;
    let mut out = String::with_capacity(value.len());
    for (at, character) in (0i64..).zip(value.chars()) {
        let is_between = at >= first && at < end;
        if is_between == is_inner { out.push_str(&padding) } else { out.push(character) }
    }
    Ok(Some(out.into_bytes()))
}

/// Hashes with SHA-256 or with the algorithm in the second argument, which has its name in Java.
fn hash(args: Args<'_, '_>) -> Result<Option<Vec<u8>>, CqlError> {
    let Some(value) = args[0].as_deref() else { return Ok(None) };
    let algorithm = args.get(1).and_then(Option::as_deref).map(String::from_utf8_lossy);
    let algorithm = algorithm.as_deref().unwrap_or("SHA-256");
    Ok(Some(match algorithm.to_ascii_uppercase().as_str() {
        "SHA-256" => Sha256::digest(value).to_vec(),
        "SHA-224" => Sha224::digest(value).to_vec(),
        "SHA-384" => Sha384::digest(value).to_vec(),
        "SHA-512" => Sha512::digest(value).to_vec(),
        "MD5" => Md5::digest(value).to_vec(),
        _ => return invalid!("Hash algorithm not found: {algorithm}"),
    }))
}
