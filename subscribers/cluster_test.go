package subscribers_test

import (
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/servers/redisserver"
	"github.com/bellhopd/bellhop/notify/storetest"
	"github.com/bellhopd/bellhop/subscribers"
)

// In a Cluster, too, a named listener is shown as active by whichever server is asked, as long as somebody listens.
func TestActiveInACluster(t *testing.T) {
	t.Parallel()
	cluster, err := redisserver.StartCluster(t.Context(), t.TempDir(), 3, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Stop)
	db := storetest.At(t, cluster.URL(), "")
	l := newListener(t, db)
	active := func() bool {
		names, err := storetest.Inspector(t, db).Listeners(t.Context())
		return err == nil && len(names) == 1 && names[0].Active
	}
	_, stop := listen(t, l, "news", subscribers.ListenOptions{Name: "n"})
	storetest.Eventually(t, "it is active", active)
	for range 30 {
		if !active() {
			t.Fatal("it is not active while it listens")
		}
	}
	stop()
	storetest.Eventually(t, "it is not active", func() bool { return !active() })
}
