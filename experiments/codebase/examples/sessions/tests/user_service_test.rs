use shop::models::user::NewUser;
use shop::services::user_service::UserService;

#[sqlx::test]
async fn sign_up_then_find_by_email(pool: sqlx::PgPool) {
    let service = UserService::new(pool);
    let new = NewUser { email: "ada@example.org".into(), name: "Ada".into(), password: "pw".into() };
    let user = service.sign_up(new).await.unwrap();
    let found = service.find_by_email("Ada@example.org").await.unwrap();
    assert_eq!(found.map(|found| found.id), Some(user.id));
}
