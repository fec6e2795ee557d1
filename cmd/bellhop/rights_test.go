package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/pagestest"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// The page quotes both rules exactly.
func TestPageOfRights(t *testing.T) {
	page := pagestest.Lines(t, "../../daemon/README.md", "Rights in Redis")
	rights := reach.Rights("bellhop", 1)
	more := strings.TrimPrefix(reach.RepairRights("bellhop", 1), rights)
	for _, rule := range []string{"ACL SETUSER bellhop on >PASSWORD " + rights, "ACL SETUSER bellhop" + more} {
		if !slices.Contains(page, rule) {
			t.Errorf("the page does not say %s", rule)
		}
	}
}
