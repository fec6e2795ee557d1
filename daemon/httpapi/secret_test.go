package httpapi_test

import (
	"testing"

	"github.com/bellhopd/bellhop/daemon/httpapi"
)

// Only admin on all topics rotates the secret, and the log says who did.
func TestRotateSecret(t *testing.T) {
	t.Parallel()
	s := start(t, httpapi.Options{TokensFile: file(t, "tokens", "all "+tokenOf("all")+" admin >\nsome "+tokenOf("some")+" admin order.>\nlooks "+tokenOf("looks")+" publish,consume,metrics >\n")})
	secret := func() string {
		t.Helper()
		text, _, err := s.store.Home().Secret(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := secret()
	s.as("some", "POST", "/v1/secret/rotate").is(403)
	s.as("looks", "POST", "/v1/secret/rotate").is(403)
	s.as("all", "POST", "/v1/secret/rotate?all=true").is(422).says("all")
	if secret() != before {
		t.Error("it changed")
	}
	s.as("all", "POST", "/v1/secret/rotate").is(204)
	if secret() == before {
		t.Error("it is the same")
	}
}
