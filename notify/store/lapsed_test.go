package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A message whose last attempt was claimed by a call that stopped half way, so that it was leased and still ready, is dead once its lease ends, or
// dropped, and handed out no more.
func TestLastAttemptOfAClaimThatStopped(t *testing.T) {
	t.Parallel()
	for end, fail := range map[string]string{"dead": "bury", "none": "drop"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			p := storetest.NewPlayer(t, storetest.Scenario{})
			p.Play("publish a attempts=1 fail=" + fail)
			poor := storetest.UserOf(t, p.Store)
			storetest.Must(t, storetest.ErrOf(poor.Of(p.Topic).Settings(t.Context(), p.Topic)))
			poor.ACL(t, "-zremrangebyrank")
			if _, err := poor.Of(p.Topic).Claim(t.Context(), store.Claim{Topic: p.Topic, Max: 1}); err == nil {
				t.Fatal("the claim is whole")
			}
			p.Play(`
			redis ZCARD leased = 1
			redis ZCARD ready:orders = 1
			lapse a
			carry = ` + map[string]string{"dead": "dead:a", "none": "dropped:a"}[end] + `
			is a=` + end + `
			redis EXISTS leased = 0
			redis EXISTS ready = 0
			claim 1 = nothing
			`)
		})
	}
}
