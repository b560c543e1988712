//! Errors of the admin API: a status, and `{"error": "…"}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::EngineError;

use crate::api::answers::Failure;

pub struct ApiError {
    pub status: StatusCode,
    pub text: String,
}

impl ApiError {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    pub fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let status = match &error {
            EngineError::Invalid(_) | EngineError::Schema(_) => StatusCode::BAD_REQUEST,
            EngineError::UnknownTable(_) => StatusCode::NOT_FOUND,
            EngineError::NoSpace(_) => StatusCode::INSUFFICIENT_STORAGE,
            EngineError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(Failure { error: self.text })).into_response()
    }
}
