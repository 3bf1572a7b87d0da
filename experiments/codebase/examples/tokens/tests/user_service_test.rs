use accounts::database::user_repo::UserRepo;
use accounts::services::user_service::{ServiceError, UserService};

fn service() -> UserService {
    let mut service = UserService::new(UserRepo::default());
    service.register("Ada@Example.org", "Ada").expect("a valid address");
    service
}

#[test]
fn find_by_email_ignores_case() {
    assert_eq!(service().find_by_email("ada@example.ORG").unwrap().display_name, "Ada");
}

#[test]
fn find_by_email_of_nobody_is_not_found() {
    assert_eq!(service().find_by_email("bob@example.org"), Err(ServiceError::NotFound));
}

#[test]
fn an_address_is_taken_once() {
    assert_eq!(service().register("ada@example.org", "Eve"), Err(ServiceError::EmailTaken));
}
