package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/notify"
)

// A User is a user of the package's Redis, and a store of its own.
type User struct {
	*notify.Store // that it uses
	Name          string
	Admin         *notify.Store // the same, of somebody whom Redis refuses nothing
}

// NewUser returns a user whom Redis refuses nothing either, until ACL changes that. The user is gone when the test ends.
func NewUser(t testing.TB) *User {
	t.Helper()
	return UserOf(t, Open(t))
}

// UserOf is NewUser for a store.
func UserOf(t testing.TB, store *notify.Store) *User {
	t.Helper()
	u := &User{Admin: store, Name: "user-" + notify.NewID()}
	u.ACL(t, "on", ">secret", "+@all", "~*", "&*")
	t.Cleanup(func() { _ = u.Admin.Client().Do(context.Background(), "ACL", "DELUSER", u.Name).Err() })
	u.Store = With(t, notify.Config{URL: strings.Replace(URL(), "//", "//"+u.Name+":secret@", 1), Prefix: store.Prefix(), Shards: len(store.KeysOfAll())})
	awaitCalls(u.Store)
	return u
}

// ACL changes the rights of the user by rules of ACL SETUSER.
func (u *User) ACL(t testing.TB, rules ...any) {
	t.Helper()
	if err := u.Admin.Client().Do(context.WithoutCancel(t.Context()), append([]any{"ACL", "SETUSER", u.Name}, rules...)...).Err(); err != nil {
		t.Error(err)
	}
}
