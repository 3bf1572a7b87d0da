//! The person who has an account.

#[derive(Debug, Clone, PartialEq)]
pub struct User {
    pub id: u64,
    pub email: String,
    pub display_name: String,
    pub password_hash: String,
    pub salt: String,
    pub role: Role,
    pub active: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Member,
    Admin,
}

impl User {
    pub fn is_admin(&self) -> bool {
        self.active && self.role == Role::Admin
    }

    /// The part of the address in front of the at sign, for greetings.
    pub fn short_name(&self) -> &str {
        self.email.split('@').next().unwrap_or(&self.email)
    }
}
