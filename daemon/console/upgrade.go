package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/bellhopd/bellhop/daemon/calls"
)

// upgradeAct gives the store the newest format, once it was said whom that shuts out.
var upgradeAct = act{path: Root + "acts/upgrade", name: "upgrade the store", do: func(ctx context.Context, c *Console, v *visit) (string, int, error) {
	u, err := ask[calls.Upgrade](ctx, c, v, "upgrade", "dry_run", "true")
	switch {
	case err != nil:
		return "", 0, err
	case u.From == u.To:
		return "", 0, &pageFault{Status: http.StatusConflict, Title: "There is nothing to upgrade", Detail: fmt.Sprintf("The store has format %d, the newest of this version.", u.To)}
	}
	whom := "older programs"
	if len(u.Refused) > 0 {
		whom += ", such as " + strings.Join(u.Refused, ", ")
	}
	if err := v.sure("Upgrade the store from format %d to %d, which adds %s? It shuts out %s.", u.From, u.To, strings.Join(u.Adds, ", "), whom); err != nil {
		return "", 0, err
	}
	_, err = ask[calls.Upgrade](ctx, c, v, "upgrade", "yes", "true")
	return fmt.Sprintf("Upgraded the store to format %d", u.To), oneIf(err), err
}}
