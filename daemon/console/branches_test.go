package console_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What the doctor finds of branches is on the page of its topic, and on the first page of whoever sees some topics.
func TestFindingsOfBranches(t *testing.T) {
	t.Parallel()
	s := guarded(t, storetest.Open(t))
	storetest.Set(t, s.store, "order.paid", notify.SettingsChange{Branches: new("mail")})
	storetest.Publish(t, s.store, message("order.a", "x"))
	putPush(t, s.store, "crm", asPut, "order.paid@mial", "bills@mail")
	shop := s.login("shop")
	const found = "branches: order.paid@mial is no branch of order.paid (mail)"
	wait(t, shop, "/ui/", found).hides("bills")
	shop.get("/ui/topics/order.paid@mial").says(found)
	shop.get("/ui/topics/order.a").hides("is no branch")
}
