//! Which handler answers which path.

use std::collections::HashMap;

use crate::auth::{AuthService, Credentials};
use crate::middleware::auth::RequireAuth;

pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Debug, PartialEq)]
pub struct Response {
    pub code: u16,
    pub body: String,
}

impl Response {
    pub fn status(code: u16) -> Self {
        Response { code, body: String::new() }
    }

    pub fn with_body(mut self, body: &str) -> Self {
        self.body = body.to_string();
        self
    }
}

pub fn dispatch(request: &Request, service: &AuthService<'_>) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/health") => Response::status(200).with_body("ok"),
        ("POST", "/login") => login(request, service),
        ("GET", "/me") => RequireAuth::new(service)
            .handle(request, |_, claims| Response::status(200).with_body(&claims.sub.to_string())),
        _ => Response::status(404),
    }
}

fn login(request: &Request, service: &AuthService<'_>) -> Response {
    let Some((email, password)) = request.body.split_once('\n') else {
        return Response::status(400);
    };
    let credentials = Credentials { email: email.into(), password: password.into() };
    match service.login(&credentials) {
        Ok(token) => Response::status(200).with_body(&token),
        Err(_) => Response::status(401),
    }
}
