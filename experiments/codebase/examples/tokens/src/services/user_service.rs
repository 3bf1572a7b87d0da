//! What can be done with accounts.

use crate::database::user_repo::UserRepo;
use crate::models::user::{Role, User};

#[derive(Debug, PartialEq)]
pub enum ServiceError {
    NotFound,
    EmailTaken,
    InvalidEmail,
}

pub struct UserService {
    repo: UserRepo,
}

impl UserService {
    pub fn new(repo: UserRepo) -> Self {
        UserService { repo }
    }

    pub fn register(&mut self, email: &str, display_name: &str) -> Result<u64, ServiceError> {
        let email = normalise(email)?;
        if self.repo.by_email(&email).is_some() {
            return Err(ServiceError::EmailTaken);
        }
        Ok(self.repo.insert(User {
            id: 0,
            email,
            display_name: display_name.to_string(),
            password_hash: String::new(),
            salt: String::new(),
            role: Role::Member,
            active: true,
        }))
    }

    pub fn get(&self, id: u64) -> Result<User, ServiceError> {
        self.repo.by_id(id).ok_or(ServiceError::NotFound)
    }

    /// The account of an address. Deactivated accounts count as absent.
    pub fn find_by_email(&self, email: &str) -> Result<User, ServiceError> {
        let email = email.trim();
        self.repo
            .by_email(email)
            .filter(|user| user.active)
            .ok_or(ServiceError::NotFound)
    }

    pub fn rename(&mut self, id: u64, display_name: &str) -> Result<(), ServiceError> {
        let mut user = self.get(id)?;
        user.display_name = display_name.to_string();
        Ok(())
    }
}

fn normalise(email: &str) -> Result<String, ServiceError> {
    let email = email.trim().to_lowercase();
    match email.split_once('@') {
        Some((local, domain)) if !local.is_empty() && domain.contains('.') => Ok(email),
        _ => Err(ServiceError::InvalidEmail),
    }
}
