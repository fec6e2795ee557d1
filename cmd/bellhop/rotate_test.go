package main

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

func TestRotateSecret(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	store := storetest.At(t, storetest.URL(), s.setting("BELLHOP_PREFIX"))
	secret := func() string {
		t.Helper()
		text, _, err := store.Home().Secret(t.Context())
		storetest.Must(t, err)
		return text
	}
	before := secret()
	contains(t, s.call("rotate"), "the secret is rotated")
	if secret() == before {
		t.Error("the secret is the same")
	}
	before = secret()
	contains(t, s.fails(exitUsage, "rotate", "now"), `unexpected argument "now"`)
	if secret() != before {
		t.Error("a wrong call rotated the secret")
	}
}
