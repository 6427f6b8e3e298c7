//! Reads one attestation result with veraison's `ear` crate (draft-ietf-rats-ear-04), and writes what it understood.
//!
//! Standard input is the compact JWS, a line feed, and the key as a JWK. The result is written as JSON by the crate
//! itself, so that whatever it did not understand is missing. Exit codes: 0 read, 1 rejected.

use std::io::Read;
use std::process::exit;

use ear::{Algorithm, Ear, RawValueKind};

const EXTENSION: &str = "affiant.dev/appraisal";

fn read() -> Result<String, String> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(|e| e.to_string())?;
    let (token, key) = input.split_once('\n').ok_or("no key")?;
    let mut found = Ear::from_jwt_jwk(token, Algorithm::ES256, key.as_bytes()).map_err(|e| e.to_string())?;
    found.extensions.register("iss", -65537, RawValueKind::String).map_err(|e| e.to_string())?;
    for appraisal in found.submods.values_mut() {
        appraisal.extensions.register(EXTENSION, -65537, RawValueKind::Map).map_err(|e| e.to_string())?;
    }
    serde_json::to_string(&found).map_err(|e| e.to_string())
}

fn main() {
    match read() {
        Ok(text) => println!("{text}"),
        Err(reason) => {
            println!("{reason}");
            exit(1);
        }
    }
}
