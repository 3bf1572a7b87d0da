//! Rejects requests without a valid bearer token.

use crate::auth::{AuthError, AuthService, Claims};
use crate::routes::{Request, Response};

pub struct RequireAuth<'a> {
    service: &'a AuthService<'a>,
}

impl<'a> RequireAuth<'a> {
    pub fn new(service: &'a AuthService<'a>) -> Self {
        RequireAuth { service }
    }

    pub fn handle<F>(&self, request: &Request, next: F) -> Response
    where
        F: FnOnce(&Request, Claims) -> Response,
    {
        let Some(header) = request.header("authorization") else {
            return Response::status(401);
        };
        let token = header.trim_start_matches("Bearer ");
        match self.service.verify(token) {
            Ok(claims) => next(request, claims),
            Err(AuthError::Expired) => Response::status(401).with_body("token expired"),
            Err(_) => Response::status(403),
        }
    }
}
