package api_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
)

func TestRescheduleToTakesADelayOrATime(t *testing.T) {
	_, err := api.RescheduleTo(t.Context(), nil, "orders", "a", time.Second, time.Now(), "")
	var fault *notify.Fault
	if !errors.As(err, &fault) || fault.Field != "due" || err.Error() != "invalid delay and due: both are given; give one of them" {
		t.Errorf("got %v", err)
	}
}
