package calls

import (
	"context"
	"net/http"

	"github.com/bellhopd/bellhop/notify/store"
)

// Upgrade is what a newer format of the store brings, and whom it shuts out.
type Upgrade struct {
	From    int      `json:"from" example:"9" doc:"the format of the store: what it may hold"`
	To      int      `json:"to" example:"10" doc:"the newest format that this daemon works with"`
	Adds    []string `json:"adds,omitempty" example:"[\"groups\"]" doc:"what may be used with the newer format"`
	Refused []string `json:"refused,omitempty" example:"[\"desk-3 (worker, v0.1.0, since 2026-11-30 06:16:20)\"]" doc:"programs that are there and do not work with the newer format"`
	Unasked bool     `json:"unasked,omitempty" doc:"who makes calls is not known, since Redis runs scripts in place of functions: refused has only daemons, workers and listeners"`
}

// upgradeOf returns an upgrade in its JSON form.
func upgradeOf(u store.Upgrade) Upgrade {
	return Upgrade{From: u.From, To: u.To, Adds: u.Adds, Refused: u.Refused(), Unasked: u.Unasked}
}

type upgradeInput struct {
	DryRun bool `query:"dry_run" doc:"change nothing: only answer what it would do"`
	Yes    bool `query:"yes" doc:"shut out programs that do not work with the newer format"`
}

var _ = define(Call{
	Name: "upgrade", Method: "POST", Path: "/v1/upgrade", Tag: TagOperate, Status: http.StatusOK, Reply: Upgrade{},
	NoNATS: "it is for an operator alone, and whoever may use every subject is not one",
	Rights: []Right{MayAdmin}, Errors: []int{409}, Summary: "Give the store the newest format that this daemon works with",
	Description: "The token must permit all topics. There is no way back but an export: older programs are refused from then on. While some are there nothing is changed, without yes. A store that has the format already stays as it is. Broken off, the call may be repeated.",
}, func(ctx context.Context, s *Service, r *Request, in *upgradeInput) (any, error) {
	if err := r.AllowAll(); err != nil {
		return nil, err
	}
	if in.DryRun {
		u, err := s.Store.LookAtUpgrade(ctx)
		return reply(upgradeOf(u), err)
	}
	u, err := s.Store.Upgrade(ctx, in.Yes)
	if err == nil && u.From != u.To {
		s.Logger.Info("store upgraded", "from", u.From, "to", u.To, "token", r.Name)
	}
	return reply(upgradeOf(u), err)
})
