//! The page of a node, for browsers: what it does now, and why. It consists of files in this binary, asks
//! `/metrics` and GET requests of the admin API, and fetches nothing from other servers. Only its console
//! ([`super::console`]) can change something.
//!
//! Charts are drawn by uPlot 1.6 (MIT licence, `page/uPlot.LICENSE`). [`super::guard`] decides who may see
//! the page, as for the rest of the admin API.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};

use crate::managed_node::ManagedNode;

/// Scripts and styles are those of this server; a script in a name or a reason would not run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const JS: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

fn file(kind: &'static str, text: &'static str) -> MethodRouter<Arc<ManagedNode>> {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new version of the node has new files.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    get(move || async move { (headers, text).into_response() })
}

/// The routes of the page.
pub fn routes() -> Router<Arc<ManagedNode>> {
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("../../page/index.html")))
        .route("/page/page.js", file(JS, include_str!("../../page/page.js")))
        .route("/page/console.js", file(JS, include_str!("../../page/console.js")))
        .route("/page/page.css", file(CSS, include_str!("../../page/page.css")))
        .route("/page/uPlot.iife.min.js", file(JS, include_str!("../../page/uPlot.iife.min.js")))
        .route("/page/uPlot.min.css", file(CSS, include_str!("../../page/uPlot.min.css")))
        .route("/metrics", get(super::metrics_text))
        .route(super::console::PATH, get(super::console::state).post(super::console::run))
}
