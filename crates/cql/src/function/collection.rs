//! Functions of collections and vectors. Source: Cassandra 5.0 `CollectionFcts.java`, `VectorFcts.java`.

use model::types::{CollectionBuilder, CollectionIter, MapIter, VectorIter};
use model::{CqlType, IndexDefinition};
use protocol::CqlError;

use super::aggregate::Aggregate;
use super::number::is_numeric;
use super::resolve::{Arg, Signature};
use crate::error::invalid;

/// Returns the overload for these arguments; `Ok(None)` if the name is not that of a function of collections.
pub fn overload(name: &str, args: &[Option<CqlType>]) -> Option<Vec<Signature>> {
    let first = args.first().and_then(Option::as_ref).map(|ty| ty.without_reversed().clone());
    Some(match (name, first) {
        ("map_keys", Some(CqlType::Map { entry, multi_cell })) => {
            let (map, set) =
                (CqlType::Map { entry: entry.clone(), multi_cell }, CqlType::set(entry.0.clone()));
            vec![Signature::new(name, [map], set.freeze(), |args| of_entries(args[0], |(key, _)| key))]
        }
        ("map_values", Some(CqlType::Map { entry, multi_cell })) => {
            let (map, list) =
                (CqlType::Map { entry: entry.clone(), multi_cell }, CqlType::list(entry.1.clone()));
            vec![Signature::new(name, [map], list.freeze(), |args| of_entries(args[0], |(_, value)| value))]
        }
        ("collection_count", Some(ty)) if ty.is_collection() => {
            vec![Signature::new(name, [ty], CqlType::Int, |args| {
                let count = args[0].first_chunk::<4>().copied().unwrap_or_default();
                Ok(Some(count.to_vec()))
            })]
        }
        ("collection_min" | "collection_max" | "collection_sum" | "collection_avg", Some(ty)) => {
            match folded(name, &ty) {
                Some(signature) => vec![signature],
                None => vec![],
            }
        }
        ("map_keys" | "map_values" | "collection_count", _) => vec![],
        ("collection_min" | "collection_max" | "collection_sum" | "collection_avg", _) => vec![],
        ("similarity_cosine" | "similarity_euclidean" | "similarity_dot_product", _) => {
            let vector = args.iter().flatten().find(|ty| matches!(ty, CqlType::Vector { .. }));
            vector.map_or(vec![], |vector| vec![similarity(name, vector)])
        }
        _ => return None,
    })
}

fn of_entries(
    bytes: &[u8],
    part: impl for<'a> Fn((&'a [u8], &'a [u8])) -> &'a [u8],
) -> Result<Option<Vec<u8>>, CqlError> {
    let mut out = CollectionBuilder::new();
    for entry in MapIter::new(bytes)? {
        if let (Some(key), Some(value)) = entry? {
            out.push(part((key, value)));
        }
    }
    Ok(Some(out.finish()))
}

/// Builds the aggregate over the elements of a list or set, such as `collection_sum`.
fn folded(name: &str, ty: &CqlType) -> Option<Signature> {
    let (CqlType::List { element, .. } | CqlType::Set { element, .. }) = ty else { return None };
    let of = name.strip_prefix("collection_")?;
    if matches!(of, "sum" | "avg") && !is_numeric(element) {
        return None;
    }
    let aggregate = Aggregate::named(of, Some(element))?;
    Some(Signature::new(name, [ty.clone()], aggregate.result.clone(), move |args| {
        let mut accumulator = aggregate.start();
        for element in CollectionIter::new(args[0])? {
            accumulator.add(&[element?])?;
        }
        accumulator.finish()
    }))
}

/// Whether the name is that of a similarity function of vectors.
pub fn is_similarity(name: &str) -> bool {
    matches!(name, "similarity_cosine" | "similarity_euclidean" | "similarity_dot_product")
}

/// Checks the arguments of a similarity function.
///
/// # Errors
/// The arguments are not two vectors of floats with the same dimension, as far as their types are known.
pub fn check_similarity(
    name: &str,
    (args, names): (&[Arg<'_>], &[String]),
    types: &[Option<CqlType>],
) -> Result<(), CqlError> {
    if args.len() != 2 {
        return invalid!(
            "Invalid number of arguments for function {name}(vector<float, n>, vector<float, n>)"
        );
    }
    let mut dimensions = vec![];
    for (at, (arg, ty)) in args.iter().zip(types).enumerate() {
        let shown = || names.get(at).cloned().unwrap_or_else(|| arg.to_string());
        match ty.as_ref().map(CqlType::without_reversed) {
            None => {}
            Some(CqlType::Vector { element, dimension }) if **element == CqlType::Float => {
                dimensions.push(*dimension);
            }
            Some(ty) => {
                return invalid!(
                    "Function {name} requires a float vector argument, but found argument {} of type {}",
                    shown(),
                    ty.to_cql()
                );
            }
        }
    }
    match dimensions[..] {
        [] => invalid!(
            "Cannot infer type of argument {} in call to function {name}(vector<float, n>, vector<float, n>): \
             use type casts to disambiguate",
            names.first().cloned().unwrap_or_else(|| args[0].to_string())
        ),
        [a, b] if a != b => invalid!("All arguments must have the same vector dimensions"),
        _ => Ok(()),
    }
}

/// Largest absolute value of an element of a vector that is indexed or searched, as in Cassandra.
const ELEMENT_MAX: f32 = 1e17;

/// A measure of the similarity of two vectors; larger is more similar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    /// The measure of this name in an index's options, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "cosine" => Self::Cosine,
            "euclidean" => Self::Euclidean,
            "dot_product" => Self::DotProduct,
            _ => return None,
        })
    }

    /// The measure that an index of vectors uses.
    pub fn of_index(index: &IndexDefinition) -> Self {
        let option = index.options.iter().find(|(name, _)| name == "similarity_function");
        option.and_then(|(_, name)| Self::named(name)).unwrap_or(Self::Cosine)
    }

    /// Checks a vector that is to be indexed or searched.
    ///
    /// # Errors
    /// An element is not finite or larger than Cassandra allows, or cosines of a vector of zeros are wanted.
    pub fn check(self, vector: &[f32]) -> Result<(), CqlError> {
        for (at, value) in vector.iter().enumerate() {
            let text = || CqlType::Float.text_of(&value.to_be_bytes());
            if !value.is_finite() {
                return invalid!("non-finite value at vector[{at}]={}", text());
            }
            if value.abs() > ELEMENT_MAX {
                return invalid!("Out-of-bounds value at vector[{at}]={}", text());
            }
        }
        if self == Self::Cosine && vector.iter().all(|value| *value == 0.0) {
            return invalid!("Zero vectors cannot be indexed or queried with cosine similarity");
        }
        Ok(())
    }

    /// # Errors
    /// The cosine of a vector of zeros.
    pub fn of(self, a: &[f32], b: &[f32]) -> Result<f32, CqlError> {
        match self {
            Self::Cosine => cosine(a, b),
            Self::Euclidean => euclidean(a, b),
            Self::DotProduct => dot_product(a, b),
        }
    }
}

fn similarity(name: &str, vector: &CqlType) -> Signature {
    let measure = match name {
        "similarity_cosine" => cosine,
        "similarity_euclidean" => euclidean,
        _ => dot_product,
    };
    let CqlType::Vector { dimension, .. } = *vector else { unreachable!("the caller found a vector") };
    let floats = CqlType::vector(CqlType::Float, dimension).unwrap_or_else(|_| vector.clone());
    Signature::new(name, [floats.clone(), floats], CqlType::Float, move |args| {
        let (a, b) = (floats_of(args[0], dimension)?, floats_of(args[1], dimension)?);
        measure(&a, &b).map(|similarity| Some(similarity.to_be_bytes().to_vec()))
    })
}

/// The elements of a serialized vector of floats.
pub fn floats_of(bytes: &[u8], dimension: u32) -> Result<Vec<f32>, CqlError> {
    let each = |element: Result<&[u8], _>| match <[u8; 4]>::try_from(element?) {
        Ok(bytes) => Ok(f32::from_be_bytes(bytes)),
        Err(_) => invalid!("a vector of floats has elements of four bytes"),
    };
    VectorIter::new(bytes, &CqlType::Float, dimension).map(each).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cosine(a: &[f32], b: &[f32]) -> Result<f32, CqlError> {
    let (length_a, length_b) = (dot(a, a), dot(b, b));
    if length_a == 0.0 || length_b == 0.0 {
        return invalid!("Function system.similarity_cosine doesn't support all-zero vectors.");
    }
    Ok((1.0 + dot(a, b) / (length_a * length_b).sqrt()) / 2.0)
}

fn euclidean(a: &[f32], b: &[f32]) -> Result<f32, CqlError> {
    let distance: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    Ok(1.0 / (1.0 + distance))
}

fn dot_product(a: &[f32], b: &[f32]) -> Result<f32, CqlError> {
    Ok((1.0 + dot(a, b)) / 2.0)
}
