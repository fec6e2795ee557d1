package main

// A mutant is a fault, and the tests that find it. Those of packages find theirs in each run of make test, those of trials where the
// commit has their third (Makefile).
type mutant struct {
	breaks string
	change
	pkg string
	run string // names of tests, with | between them
}

const lua = "notify/store/script/lua/"

// Packages of the tests.
const (
	ofNotify      = "./notify"
	ofStore       = "./notify/store"
	ofCalendar    = "./notify/store/calendar"
	ofCarrier     = "./carrier"
	ofRepair      = "./daemon/doctor/repair"
	ofSubscribers = "./subscribers"
	ofHTTP        = "./daemon/httpapi"
	ofNATS        = "./daemon/natsgate"
	ofDev         = "./cmd/bellhop/internal/dev"
)

var mutants = []mutant{
	// Schedules.
	{
		"a fill of schedules is not fenced by the lease",
		change{
			lua + "fill.lua",
			"if holder ~= ARGV[1] then return",
			"if not holder then return",
		},
		ofStore, "TestFillSchedules",
	},
	{
		"a fill of schedules is not fenced by the cursor",
		change{
			lua + "shared/schedules.lua",
			" or text(s.cursor) ~= before",
			"",
		},
		ofStore, "TestFillSchedules",
	},
	{
		"a changed schedule withdraws what was moved",
		change{
			lua + "shared/schedules.lua",
			"due_of(s.topic, member) ~= one.due or",
			"not due_of(s.topic, member) or",
		},
		ofStore, "TestWithdraw",
	},
	{
		"a changed schedule makes again what was cancelled",
		change{
			lua + "shared/schedules.lua",
			"if not noted[one.time] and not fault then",
			"if not fault then",
		},
		ofStore, "TestWithdraw",
	},
	{
		"what was missed is carried before it is settled",
		change{
			lua + "carry.lua",
			"ARGV[10] ~= '' and",
			"false and",
		},
		ofStore, "TestSettleFirst",
	},
	{
		"a fixed time fires in both hours of one that is repeated",
		change{
			"notify/store/calendar/walk.go",
			"(start >= at || shown > from)",
			"start >= at",
		},
		ofCalendar, "TestNext",
	},
	// Rings, the beat and the lease of the carrier.
	{
		"the beat names nothing",
		change{
			lua + "shared/beat.lua",
			"      fields[#fields + 1] = topic\n",
			"",
		},
		ofSubscribers, "TestWaitingListIsLost",
	},
	{
		"the ring of a publish is dropped",
		change{
			lua + "shared/enter.lua",
			"if state == 'ready' then Rings.ring(topic, 1, us, nobody) end",
			"",
		},
		ofNotify, "TestRing",
	},
	{
		"a beat does not ring again",
		change{
			lua + "shared/beat.lua",
			"    Rings.ring(topic, ready, c.us)\n",
			"",
		},
		ofCarrier, "TestBeatRingsAgain",
	},
	{
		"a fallback of five seconds stands for the heartbeat",
		change{
			"notify/store/reach/beat.go",
			"const Heartbeat = time.Second",
			"const Heartbeat = 5 * time.Second",
		},
		ofCarrier, "TestBeats",
	},
	{
		"a nudge is dropped",
		change{
			lua + "shared/rings.lua",
			"then tell(NUDGE, text(due)) end",
			"then return end",
		},
		ofNotify, "TestNudge",
	},
	{
		"a lease of the carrier is not fenced",
		change{
			lua + "carry.lua",
			"if holder ~= token then return",
			"if not holder then return",
		},
		ofCarrier, "TestDeposedCarrierMovesNothing",
	},
	{
		"the housekeeping is not fenced",
		change{
			lua + "sweep.lua",
			"if holder ~= ARGV[1] then return",
			"if not holder then return",
		},
		ofCarrier, "TestDeposedCarrierSweepsNothing",
	},
	{
		"a takeover waits twice the lease",
		change{
			"carrier/shares.go",
			"return left + rand.N(electJitter)",
			"return 2*left + rand.N(electJitter)",
		},
		ofCarrier, "TestTakeover",
	},
	{
		"a standby never looks",
		change{
			"carrier/election.go",
			"time.Now().Add(m.shares.until(left))",
			"time.Now().Add(m.shares.until(left) + time.Hour)",
		},
		ofCarrier, "TestTakeover",
	},
	{
		"a stop does not give up the lease",
		change{
			"carrier/election.go",
			"if _, err := m.redis.resign(ctx, t.token, t.heir, before); err != nil {",
			"if err := ctx.Err(); err != nil && before >= 0 {",
		},
		ofCarrier, "TestTakeover",
	},

	// What the carrier carries.
	{
		"carry is a millisecond early",
		change{
			lua + "shared/carry.lua",
			"  local us, now = clock()\n",
			"  local us, now = clock()\n  us, now = us + 1000, now + 1\n",
		},
		ofDev, "TestHistoriesInABubble",
	},
	{
		"an advance goes on before what is due is moved",
		change{
			"notify/servers/memory/quiet.go",
			"return !s.due && len",
			"return len",
		},
		ofDev, "TestHistoriesByAManualClock",
	},
	{
		"carry skips a tie",
		change{
			lua + "shared/due.lua",
			"  Places.take_first_scheduled(topic, #list / 2)\nend\n\n-- The topics",
			"  call('ZREMRANGEBYSCORE', key, '-inf', list[#list - 1])\n  Places.index_scheduled(topic)\nend\n\n-- The topics",
		},
		ofCarrier, "TestBacklogIsMovedWithItsDueTimes",
	},
	{
		"an expired lease is not carried",
		change{
			lua + "shared/lapsed.lua",
			"local ended = without_stopped(without_spared(c, Move.due_in(LEASED, text(c.us), c.slow)))",
			"local ended = {}",
		},
		ofCarrier, "TestExpiredLeaseIsReturnedThenBuried",
	},
	{
		"an ended lease uses up no attempt",
		change{
			lua + "shared/lapsed.lua",
			"used = Attempts.note(1, member, try('HGET', ATTEMPTS, member), since,",
			"Attempts.note(1, member, try('HGET', ATTEMPTS, member), since,",
		},
		ofCarrier, "TestExpiredLeaseIsReturnedThenBuried",
	},
	{
		"the log skips an entry",
		change{
			lua + "shared/broadcasts.lua",
			"local at, fault = append(c, log, b.position, 'id',",
			"local at, fault = #b.gone == 1 and b.position or append(c, log, b.position, 'id',",
		},
		ofCarrier, "TestBroadcastsAreSentInDueOrder",
	},
	{
		"the batch grows though Redis is slow",
		change{
			"carrier/carry.go",
			"t.batch = max(t.batch/2, minBatch)",
			"t.batch *= 2",
		},
		ofCarrier, "TestBatchAdaptsToRedis",
	},
	{
		"a topic with leased messages is forgotten",
		change{
			lua + "shared/sweep.lua",
			"topic .. ':leased', topic .. ':broadcasts',",
			"topic .. ':broadcasts',",
		},
		ofCarrier, "TestTopicInUseIsNotForgotten",
	},
	{
		"the housekeeping forgets who has what is leased",
		change{
			lua + "shared/sweep.lua",
			"'(' .. text(math.floor(last) + 10)) == 0 then",
			"'(' .. text(math.floor(last) + 10)) >= 0 then",
		},
		ofSubscribers, "TestClaimsAreForgotten",
	},
	{
		"dead letters that are too many stay",
		change{
			lua + "shared/sweep.lua",
			"if all > c.keep or all == 0 then",
			"if all == 0 then",
		},
		ofCarrier, "TestTooManyDeadLettersAreRemoved",
	},

	// Claims and leases.
	{
		"a publish overtakes an overdue one",
		change{
			lua + "shared/enter.lua",
			"if earliest > now or Places.is_behind(topic, now) then",
			"if earliest > now then",
		},
		ofSubscribers, "TestOrderBehindWhatIsOverdue",
	},
	{
		"a claim returns messages before their age",
		change{
			lua + "claim.lua",
			"Claim.find(ready, now - age, math.min(most, room))",
			"Claim.find(ready, now, math.min(most, room))",
		},
		ofSubscribers, "TestClaimOnlyWhatIsOldEnough",
	},
	{
		"a pause is ignored",
		change{
			lua + "claim.lua",
			"if Settings.get('paused', own, nil) == 1 or",
			"if Settings.get('paused', own, nil) == 2 or",
		},
		ofNotify, "TestPauseAndResume",
	},
	{
		"a pause ends early",
		change{
			lua + "shared/pauses.lua",
			"  if at > now then -- it was noted for another pause",
			"  if at > 2 * now then -- it was noted for another pause",
		},
		ofStore, "TestEndsOfAPause",
	},
	{
		"a pause never ends",
		change{
			lua + "shared/pauses.lua",
			"  Settings.put(topic, after)\n",
			"",
		},
		ofStore, "TestPauseUntil",
	},
	{
		"a release leaves what was said of the work",
		change{
			lua + "release.lua",
			"    if kept >= 2 then Extras.drop_progress(mine) end\n",
			"",
		},
		ofStore, "TestProgress",
	},
	{
		"a claim takes no slot",
		change{
			lua + "shared/claim.lua",
			"    if c.slots then Limits.take(c.topic, leases) end\n",
			"",
		},
		ofStore, "TestConcurrency",
	},
	{
		"a lease that ended keeps its slot",
		change{
			lua + "shared/limits.lua",
			"local n = try('ZREM', slots_of(topic), unpack(left)) or 0",
			"local n = #left",
		},
		ofStore, "TestConcurrency",
	},
	{
		"a slot that is free rings nobody",
		change{
			lua + "shared/endings.lua",
			"  if freed then ring_for(freed, Limits.held_rings()) end\n",
			"",
		},
		ofStore, "TestConcurrency",
	},
	{
		"a slot of nobody is never free",
		change{
			lua + "shared/limits.lua",
			"else call('ZREM', slots_of(topic), members[i]) end",
			"end",
		},
		ofStore, "TestSlotOfNobody",
	},
	{
		"a limit that is raised rings nobody",
		change{
			lua + "set.lua",
			"if of_seats then Seats.mend_some({ topic }) end\nring()",
			"if of_seats then Seats.mend_some({ topic }) end",
		},
		ofStore, "TestConcurrencyChanges",
	},
	{
		"a rate is not used up",
		change{
			lua + "shared/limits.lua",
			"rate.spent = rate.spent + n * rate.each",
			"rate.spent = rate.spent",
		},
		ofStore, "TestRateHolds",
	},
	{
		"nobody is rung when a rate allows more",
		change{
			lua + "shared/alarms.lua",
			"if ready > 0 then Rings.ring(topic, ready, c.us) end",
			"",
		},
		ofStore, "TestRate",
	},
	{
		"the seats of a key are not limited",
		change{
			lua + "shared/seats.lua",
			"return math.max(seats_for(topic, key) - #ids, 0)",
			"return 1",
		},
		ofStore, "TestSeats",
	},
	{
		"occurrences overlap where the topic lets messages of a key",
		change{
			lua + "shared/seats.lua",
			"return string.byte(key) == 126",
			"return key == ''",
		},
		ofCarrier, "TestOverlapSkip",
	},
	{
		"occurrences are carried before schedules are settled",
		change{
			lua + "shared/due.lua",
			"return c.settle and call('EXISTS', rules_of(topic)) == 1",
			"return c.settle and call('EXISTS', rules_of(topic)) == 2",
		},
		ofStore, "TestSettleFirst",
	},
	{
		"a schedule that is changed skips what nobody made",
		change{
			lua + "shared/schedules.lua",
			"math.floor(math.min(from, now) / 1000)",
			"math.floor(now / 1000)",
		},
		ofCarrier, "TestChangedWhileNobodyCarried",
	},
	{
		"the setting of the lease is ignored",
		change{
			lua + "claim.lua",
			"if lease == 0 then lease = Settings.get('lease', own, common) end",
			"if lease == 0 then lease = 30000 end",
		},
		ofSubscribers, "TestLeaseOfTheSettings",
	},
	{
		"the time to live is ignored",
		change{
			lua + "shared/leases.lua",
			"(tonumber(expiry) <= now or",
			"(tonumber(expiry) <= 0 or",
		},
		ofSubscribers, "TestClaimDoesNotHandOutWhatExpired",
	},
	{
		"a claim whose wait has ended waits for a lost hand-over",
		change{
			"subscribers/queue.go",
			"\t\tw.start(q)\n\t\tw.vacated.Broadcast()\n\t\treturn nil",
			"\t\tw.start(q)\n\t\treturn nil",
		},
		ofSubscribers, "TestCallerLeavesOnceItsQueueIsServed",
	},
	{
		"an ack forgets the receipt",
		change{
			lua + "shared/leases.lua",
			"if is_same(lease, receipt) then return true end",
			"if lease then return true end",
		},
		ofSubscribers, "TestReceiptOfAnEarlierLease",
	},
	{
		"the note of an extension outlives the lease",
		change{
			lua + "shared/leases.lua",
			"if try('GET', note) ~= receipt .. ' ' .. text(lease) then",
			"if not string.find(try('GET', note) or '', receipt, 1, true) then",
		},
		ofSubscribers, "TestExtendedReceiptOfAnEarlierLease",
	},
	{
		"a nack uses up no attempt",
		change{
			lua + "shared/nack.lua",
			"  local used, forgetful = use_up(c)\n  no_longer_leased(c)",
			"  local used, forgetful = c.used, 0\n  no_longer_leased(c)",
		},
		ofSubscribers, "TestFailureIsRetriedWithItsAttempts",
	},
	{
		"there is no backoff",
		change{
			lua + "shared/nack.lua",
			"wait = math.floor(math.min(",
			"wait = 0 * math.floor(math.min(",
		},
		ofNotify, "TestBackoffOfATopic",
	},
	{
		"an extension takes the receipt of an earlier lease",
		change{
			lua + "shared/extend.lua",
			"local was = receipts[i]",
			"local was = receipts[#receipts]",
		},
		ofStore, "TestMemberTwice",
	},
	{
		"a release loses its place",
		change{
			lua + "release.lua",
			"list, time = as_before, dues[position[member]]",
			"list, time = as_before, now",
		},
		ofSubscribers, "TestReleaseKeepsThePlace",
	},
	{
		"a release keeps the receipt",
		change{
			lua + "shared/leases.lua",
			"  Counters.count(topic, 'released', 1)\n",
			"",
		},
		ofSubscribers, "TestReceiptOfAnEarlierLease",
	},
	{
		"an extension extends nothing",
		change{
			lua + "shared/extend.lua",
			"c.receipt = Leases.receipt_of(c.us + c.lease * 1000, 0)",
			"c.receipt = Leases.receipt_of(c.us, 0)",
		},
		ofSubscribers, "TestLeaseIsExtendedWhileTheHandlerRuns",
	},
	{
		"a hand-over is not confirmed",
		change{
			"subscribers/extend.go",
			"if e.confirming {",
			"if e.confirming && e.concurrency == 0 {",
		},
		ofSubscribers, "TestHandoverIsConfirmed",
	},
	{
		"what is on its way to an inbox that leaves stays leased",
		change{
			lua + "shared/handover.lua",
			"if handed < 0 or handed == tonumber(received) then return end",
			"if handed > tonumber(received) then return end",
		},
		ofSubscribers, "TestHandoverIsTakenBack",
	},
	{
		"what was taken back is handled when it arrives",
		change{
			"subscribers/handover.go",
			"if !q.box.isGood(h.At) || ",
			"if ",
		},
		ofSubscribers, "TestHandoverToACallerThatLeft",
	},
	{
		"a hand-over is not spared when Redis stood still",
		change{
			lua + "shared/lapsed.lua",
			"if score % 1 > 0 and not Leases.is_spared(score) then",
			"if score % 1 > 0 and Leases.is_spared(score) and score < 0 then",
		},
		ofSubscribers, "TestHandoverIsSpared",
	},
	{
		"a cancel removes what is leased",
		change{
			lua + "cancel.lua",
			"if lease and what ~= '3' and what ~= '4' then return { 'leased' } end",
			"if what ~= '3' and what ~= '4' then lease = false end",
		},
		ofNotify, "TestCancel",
	},
	{
		"what is to be cancelled is ready when its lease ends",
		change{
			lua + "shared/lapsed.lua",
			"local ended = without_stopped(without_spared(c, Move.due_in(LEASED, text(c.us), c.slow)))",
			"local ended = without_spared(c, Move.due_in(LEASED, text(c.us), c.slow))",
		},
		ofStore, "TestStop",
	},
	{
		"what is to be cancelled is put off",
		change{
			lua + "nack.lua",
			"if Extras.extra(noted, 'stop') then",
			"if how ~= 'keep' and Extras.extra(noted, 'stop') then",
		},
		ofStore, "TestStop",
	},
	{
		"the lease of what is to be cancelled is extended",
		change{
			lua + "extend.lua",
			"if #noted > 0 then Extend.leave_stopped(c, noted, reply) end",
			"",
		},
		ofStore, "TestExtensionOfStopped",
	},
	{
		"no worker is told to stop",
		change{
			lua + "stop.lua",
			"== begins then",
			"== member then",
		},
		ofSubscribers, "TestCancelStops",
	},
	{
		"what a stopped handler did is acknowledged",
		change{
			"subscribers/handle.go",
			"case errors.Is(ended, store.ErrCancelled): // its release cancels it",
			"case errors.Is(ended, store.ErrCancelled) && err != nil:",
		},
		ofSubscribers, "TestCancelStops",
	},
	{
		"an id is free too early",
		change{
			lua + "shared/endings.lua",
			"        Endings.keep_taken(member, unique, us, state)\n        table.remove(members, i)\n",
			"",
		},
		ofNotify, "TestUniqueFor",
	},
	{
		"a requeue forgets when a message was first due",
		change{
			lua + "requeue.lua",
			"  for _, member in ipairs(due.members) do Messages.put_first_due(member, now) end\n",
			"",
		},
		ofNotify, "TestFirstDueRequeued",
	},

	// Named listeners.
	{
		"a gap is not told",
		change{
			lua + "shared/take.lua",
			"    hand_out_gap(c, topic, range .. ' ' .. topic, 1, missed_after, lost)\n",
			"",
		},
		ofSubscribers, "TestGapOfAName",
	},
	{
		"a named listener's place moves without leases",
		change{
			lua + "take.lua",
			"if #c.holds > 0 then call('ZADD', c.held, unpack(c.holds)) end",
			"",
		},
		ofSubscribers, "TestNamedTakesOver|TestNamedLeaseIsExtended",
	},

	{
		"no limit of what a message asks for is checked",
		change{
			"notify/store/fields/check.go",
			"case field.IsZero(), len(f.Index) > 1:",
			"case field.IsValid():",
		},
		ofNotify, "TestAllFaultsOfAMessage",
	},

	// The daemon.
	{
		"a right of a token is not checked",
		change{
			"daemon/calls/client.go",
			"if len(any) == 0 || slices.Contains(c.Rights, MayAdmin) {",
			"if len(any) >= 0 {",
		},
		ofHTTP, "TestWhoMayCallWhat",
	},
	{
		"a topic of a token is not checked",
		change{
			"daemon/calls/client.go",
			"if err != nil || c.Covers(p) {",
			"if err != nil || p.Covers(p) {",
		},
		ofHTTP, "TestAuthorization|TestWhoMayCallWhat|TestLinesAndTopicsOfAToken",
	},
	{
		"a delivery without an answer is acknowledged",
		change{
			"daemon/natsgate/deliver.go",
			"return subscribers.RetryAfter(errNoAnswer, 0)",
			"return nil",
		},
		ofNATS, "TestTimeToAnswer",
	},
	{
		"a refused delivery is acknowledged",
		change{
			"daemon/natsgate/deliver.go",
			"return true, d.again(s)",
			"return true, nil",
		},
		ofNATS, "TestDeliverNak",
	},
	{
		"a row is archived twice",
		change{
			"daemon/archive/row.go",
			"\n	ON CONFLICT DO NOTHING`",
			"`",
		},
		"./daemon/archive", "TestTwice",
	},
	{
		"a publisher that does not ring lets the relay fall asleep",
		change{
			"daemon/outbox/install.sql",
			"IF NOT pg_try_advisory_xact_lock_shared({{.LockClass}}, {{.Lock}}) THEN",
			"IF EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = {{.LockClass}} AND mode = 'ExclusiveLock') THEN",
		},
		"./daemon/outbox", "TestRing",
	},
	{
		"everybody may publish to an outbox",
		change{
			"daemon/outbox/install.sql",
			"REVOKE ALL ON FUNCTION {{.Functions}} FROM PUBLIC;\n",
			"",
		},
		"./daemon/outbox", "TestRights",
	},
	{
		"wrong counters are not repaired",
		change{
			"daemon/doctor/repair/repair.go",
			"		func() error { return r.counters(ctx, script.PlaceLeased) },\n",
			"",
		},
		ofRepair, "TestDamages",
	},
	{
		"a file that a test reads is changed, and the result of before is kept",
		change{
			"daemon/metrics/alerts.yml",
			"expr: max by (job, topic) (bellhop_oldest_overdue_seconds)",
			"expr: min by (job, topic) (bellhop_oldest_overdue_seconds)",
		},
		"./daemon/metrics", "TestAlertsByTopic",
	},

	// Groups.
	{
		"messages join their group once they have records",
		change{
			lua + "shared/batch.lua",
			"    if lists.groups then Groups.join(ARGV[2 * t], lists.groups, now) end\n  end\n  call('HSET', MESSAGES, unpack(b.records))",
			"  end\n  call('HSET', MESSAGES, unpack(b.records))\n  for t, lists in ipairs(b.lists) do\n    if lists.groups then Groups.join(ARGV[2 * t], lists.groups, now) end\n  end",
		},
		ofRepair, "TestStoppedHalfwayByThirds",
	},
	{
		"a message that got no record keeps the group of another",
		change{
			lua + "shared/conflicts.lua",
			"    if unkey then unkey() end\n    if ungroup then ungroup() end\n  end, function()",
			"    if unkey then unkey() end\n  end, function()",
		},
		ofRepair, "TestStoppedHalfwayByThirds",
	},
	{
		"a dead letter lives again before it counts as living",
		change{
			lua + "requeue.lua",
			"  if beside >= 2 then Groups.revive(topic, due.members) end\n",
			"",
		},
		ofStore, "TestGroups",
	},
	{
		"the carrier does not see who joined a group since it was to look",
		change{
			lua + "shared/callbacks.lua",
			"g.restoring or Callbacks.left(topic, g) > 0 then",
			"g.restoring then",
		},
		ofStore, "TestGroups",
	},
	{
		"what has the id of a callback by now is taken for that",
		change{
			lua + "shared/callbacks.lua",
			"if record and says(record, 'after_group', topic .. ':' .. g.name) then",
			"if record then",
		},
		ofNotify, "TestCallbackOfGroup",
	},
	{
		"a group is not noted as complete",
		change{
			lua + "shared/callbacks.lua",
			"text(n) .. (g.complete and ' ' .. text(now) or '')",
			"text(n)",
		},
		ofNotify, "TestAfterGroup",
	},
	{
		"a dead letter holds back what waits with on_dead=go",
		change{
			lua + "shared/callbacks.lua",
			"text(g.n) .. (g.go and '' or '.5'))",
			"text(g.n) .. '.5')",
		},
		ofNotify, "TestDeadOfGroup",
	},
	{
		"a dead letter holds back nothing",
		change{
			lua + "shared/callbacks.lua",
			"text(g.n) .. (g.go and '' or '.5'))",
			"text(g.n))",
		},
		ofNotify, "TestDeadOfGroup",
	},
	{
		"what follows a message stays in its group",
		change{
			lua + "shared/callbacks.lua",
			"and (not g or says(record, 'group', g.name))",
			"",
		},
		ofNotify, "TestReplacedInGroup",
	},
	{
		"nobody looks at the group that a message left for another",
		change{
			lua + "shared/groups.lua",
			"    if left then note(1) end\n",
			"",
		},
		ofNotify, "TestReplacedInGroup",
	},
	{
		"nobody looks at a group of which the last ended",
		change{
			lua + "shared/callbacks.lua",
			"if waits and Callbacks.left(topic, g) <= change.fewer then",
			"if false then",
		},
		ofNotify, "TestAfterGroup",
	},
	{
		"a message joins a complete group",
		change{
			lua + "shared/callbacks.lua",
			"    if since then return -since, Groups.home_of(one.topic) .. ':' .. group end\n",
			"",
		},
		ofNotify, "TestAfterGroup",
	},
	{
		"a message waits for itself",
		change{
			lua + "shared/callbacks.lua",
			"if group and is_circle(one, topic, name) then",
			"if false then",
		},
		ofNotify, "TestCircleOfGroups",
	},
	{
		"a callback that came by a time comes again",
		change{
			lua + "shared/callbacks.lua",
			"if member and still_waits(member) and not",
			"if member and try('ZSCORE', scheduled_of(topic_of(member)), member) and not",
		},
		ofNotify, "TestCallbackOfGroup",
	},
	{
		"the housekeeping does not look at groups",
		change{
			lua + "sweep.lua",
			"Sweep.mend_groups(c)\n",
			"",
		},
		ofStore, "TestGroupsAreMended",
	},
	{
		"a message leaves its group while it has its record",
		change{
			lua + "shared/groups.lua",
			"  for _, member in ipairs(members) do all[member] = how or all[member] or 'cancelled' end\n",
			"  for _, member in ipairs(members) do\n    all[member] = how or all[member] or 'cancelled'\n    if how == 'acked' then call('ZREM', grouped_of(topic), string.sub(member, #topic + 2)) end\n  end\n",
		},
		ofRepair, "TestStoppedHalfwayByThirds",
	},
	{
		"the housekeeping takes members away that have records",
		change{
			lua + "shared/callbacks.lua",
			"      Groups.touch(own, doubtful_of(",
			"      for _, member in ipairs(doubtful_of(own, all, score_of)) do call('ZREM', grouped_of(own), string.sub(member, #own + 2)) end\n      Groups.touch(own, doubtful_of(",
		},
		ofStore, "TestGroupsAreMended",
	},
	{
		"a message that is kept joins the group of the other",
		change{
			lua + "shared/batch.lua",
			"  if b.seen[member] or taken and not Messages.is_freed(member, taken, b.now) then return -1 end\n",
			"  if b.seen[member] or taken and not Messages.is_freed(member, taken, b.now) then\n    if group then note_group(b, lists, topic, string.sub(member, #topic + 2), group, had) end\n    return -1\n  end\n",
		},
		ofStore, "TestGroups",
	},
	{
		"a callback comes amid an import",
		change{
			lua + "shared/callbacks.lua",
			"or not g.callback or g.restoring or Callbacks",
			"or not g.callback or Callbacks",
		},
		ofNotify, "TestLookAmidAnImport",
	},
	{
		"a group is not being restored",
		change{
			lua + "shared/groups.lua",
			"restoring = restored and 1 or nil",
			"restoring = nil",
		},
		ofNotify, "TestImportOfGroup|TestCallbackAmidAnImport",
	},
	{
		"an import changes a group that is there",
		change{
			lua + "shared/callbacks.lua",
			"if since or g and not g.restoring then return false end",
			"if since then return false end",
		},
		ofNotify, "TestImportOfGroup",
	},
	{
		"a restored group forgets what became of those that left",
		change{
			lua + "shared/callbacks.lua",
			"    if had[how] then g[how] = (g[how] or 0) + had[how] end\n",
			"",
		},
		ofNotify, "TestImportOfGroup",
	},
	{
		"a restored group is not complete",
		change{
			lua + "shared/callbacks.lua",
			"  if not waits then g.complete = had.complete end\n",
			"",
		},
		ofNotify, "TestExportOfCompleteGroup",
	},
	{
		"nobody looks at a restored group of which nobody is left",
		change{
			lua + "shared/callbacks.lua",
			"  if member and not g.complete and Callbacks.left(topic, g) == 0 then look_at(topic, had.name, now) end\n",
			"",
		},
		ofNotify, "TestImportOfGroupThatEnded",
	},
	{
		"groups are exported before the messages",
		change{
			"notify/export.go",
			"\tfor cursor := \"0\"; ; {\n\t\tnext, err := e.step(",
			"\tif err := e.groups(ctx); err != nil {\n\t\treturn err\n\t}\n\tfor cursor := \"0\"; ; {\n\t\tnext, err := e.step(",
		},
		ofNotify, "TestExportOfGroups",
	},
	{
		"a group that cannot be restored is exported",
		change{
			"notify/export_groups.go",
			"if g.Check() != nil {",
			"if false {",
		},
		ofNotify, "TestExportOfGroups",
	},
	{
		"a repair leaves an entry of nobody in a group",
		change{
			lua + "repair/groups.lua",
			"if Repair.wrong('of nothing', member, KEY, 'removed') then call('ZREM', KEY, entry) end",
			"Repair.wrong('of nothing', member, KEY, 'removed')",
		},
		ofRepair, "TestDamagedGroups",
	},
	{
		"a repair does not see who is dead in a group",
		change{
			lua + "repair/groups.lua",
			"local right = n + (try('ZSCORE', dead_of(topic_of(member)), member) and 0.5 or 0)",
			"local right = score",
		},
		ofRepair, "TestDamagedGroups",
	},
	{
		"a repair has a group with the wrong number",
		change{
			lua + "repair/groups.lua",
			"  elseif other ~= n or since ~= g.complete then",
			"  elseif false then",
		},
		ofRepair, "TestDamagedGroups",
	},
	{
		"a callback comes while a repair makes its group anew",
		change{
			lua + "repair/grouped.lua",
			"Callbacks.hold(topic, upto) end",
			"end",
		},
		ofRepair, "TestRepairHoldsGroups",
	},
	{
		"a repair holds groups for good",
		change{
			"daemon/doctor/repair/groups.go",
			"err = r.holdGroups(ctx, grouped, 0)",
			"err = nil",
		},
		ofRepair, "TestRepairHoldsGroups",
	},
	{
		"a repair does not name a callback again",
		change{
			lua + "repair/records.lua",
			"  Callbacks.await_again({ member = member, after_group = options.after_group, on_dead = options.on_dead }, now)\n",
			"",
		},
		ofRepair, "TestDamagedGroups",
	},
	{
		"members leave a forgotten group whose records still name it",
		change{
			lua + "forget_group.lua",
			"unpack(entries, 1, #records))\nreturn { #records }",
			"unpack(entries))\nreturn { #entries }",
		},
		ofStore, "TestForgetGroupOfLargeMessages",
	},
	{
		"a callback lies in another shard than its group",
		change{
			"notify/group.go",
			"of.Number() != shard.Number()",
			"false",
		},
		ofNotify, "TestGroupOfAnotherShard",
	},
	{
		"groups stand in a store whose format has none",
		change{
			"notify/group.go",
			"return shard.Needs(ctx, store.FormatOfGroups, \"a group\")",
			"return nil",
		},
		ofNotify, "TestGroupsNeedTheirFormat",
	},

	// The relay of an outbox.
	{
		"a refused row that is retried keeps its number",
		change{
			"daemon/outbox/refused.go",
			"SET refused = NULL, seq = DEFAULT WHERE",
			"SET refused = NULL WHERE",
		},
		"./daemon/outbox", "TestRefusedIsChanged",
	},
	{
		"a retry of one row that is refused and one that is not changes the first",
		change{
			"daemon/outbox/refused.go",
			"if err == nil && not != nil {",
			"if err == nil && len(found) == 0 && not != nil {",
		},
		"./daemon/outbox", "TestRefusedIsChanged",
	},
	{
		"a relay is not fenced by its token",
		change{
			lua + "relay.lua",
			"if holder ~= token then return { '' } end",
			"if not holder then return { '' } end",
		},
		ofNotify, "TestStaleRelay",
	},
	{
		"who begins is told of no row",
		change{
			lua + "relay.lua",
			"return { noted or '' }",
			"return { '' }",
		},
		ofNotify, "TestRelayNotesABatch",
	},
	{
		"a call forgets the rows of its batch that were taken before",
		change{
			lua + "relay.lua",
			"{ last == batch and noted ~= '' and noted or nil }",
			"{}",
		},
		ofNotify, "TestRelayNotesABatch",
	},
	{
		"a delay counts from the relay",
		change{
			"notify/relay.go",
			"call[i].When = call[i].When.After(row.Age)",
			"_ = row.Age",
		},
		ofNotify, "TestAgeOfARelayed",
	},
	{
		"messages of a key that are relayed together are in the order of their ids",
		change{
			"notify/relay.go",
			"of[out.Topic]++",
			"of[out.Topic] += 0",
		},
		ofNotify, "TestOrderOfARelayedKey",
	},
	{
		"a row is known by its number alone",
		change{
			"daemon/outbox/rows.go",
			" AND (seq, called) IN (SELECT * FROM unnest($1::bigint[], $2::timestamptz[]))",
			" AND $2::timestamptz[] IS NOT NULL",
		},
		"./daemon/outbox", "TestNumberGivenAgain",
	},
	{
		"what was taken is not deleted by who begins",
		change{
			"daemon/outbox/relay.go",
			"c.delete(ctx, b.taken)",
			"c.delete(ctx, nil)",
		},
		"./daemon/outbox", "TestRelayedOnce",
	},
	{
		"rows are deleted before they are published",
		change{
			"daemon/outbox/relay.go",
			"if err := c.settle(ctx, rows, c.publish(ctx, rows)); err != nil {",
			`if err := errors.Join(c.exec(ctx, "", "DELETE FROM bellhop.outbox WHERE seq <= $1", rows[len(rows)-1].Row.Seq), c.settle(ctx, rows, c.publish(ctx, rows))); err != nil {`,
		},
		"./cmd/bellhop/internal/trials/crash", "TestLedger",
	},
	{
		"a relay passes rows that are locked",
		change{
			"daemon/outbox/rows.go",
			"topic <> ALL($2) ORDER BY seq LIMIT $3",
			"topic <> ALL($2) ORDER BY seq LIMIT $3 FOR UPDATE SKIP LOCKED",
		},
		"./daemon/outbox", "TestLockedRow",
	},
	{
		"a relay sleeps without the lock",
		change{
			"daemon/outbox/link.go",
			`if c.asleep, err = c.ask(ctx, "fall asleep", "SELECT pg_try_advisory_lock($1, $2)"); c.asleep ||`,
			"if c.asleep = true; c.asleep ||",
		},
		"./daemon/outbox", "TestRelayIsRung",
	},
	{
		"a relay does not look once more behind the lock",
		change{
			"daemon/outbox/link.go",
			"return err // to look once more",
			"return c.sleep(ctx)",
		},
		"./daemon/outbox", "TestCommitBeforeTheLock",
	},
	{
		"the floor does not wait for who writes",
		change{
			"daemon/outbox/link.go",
			"f.writers, f.ended = writers, len(writers) == 0",
			"f.writers, f.ended = writers, true",
		},
		"./daemon/outbox", "TestFloor",
	},
	{
		"the floor is raised while a shard is away",
		change{
			"daemon/outbox/link.go",
			"if all && f.ended",
			"if f.ended",
		},
		"./daemon/outbox", "TestShardAway",
	},

	// Branches.
	{
		"originals are taken out before they are copied",
		change{
			lua + "shared/branches.lua",
			"  for i, branch in ipairs(t.copied[1] and branches or {}) do rings[i], sends[i] = copy_into(c, t, branch) end\n  report(c, t)\n  Claim.take(t, t.leases)\n",
			"  Claim.take(t, t.leases)\n  for i, branch in ipairs(t.copied[1] and branches or {}) do rings[i], sends[i] = copy_into(c, t, branch) end\n  report(c, t)\n",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a step that is repeated copies again what it finds",
		change{
			lua + "shared/branches.lua",
			"if there == record and",
			"if false and",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy takes the place of another one of its id",
		change{
			lua + "shared/branches.lua",
			"while seen[member] or there and",
			"while false and",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy is due when it is copied",
		change{
			lua + "shared/branches.lua",
			"= one.due, member",
			"= t.now, member",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy that waits for a key is handed over",
		change{
			lua + "shared/branches.lua",
			"or w.keyed[1] or",
			"or",
		},
		ofStore, "TestBranchesAreHandedOver",
	},
	{
		"a copy that expired is handed over",
		change{
			lua + "shared/branches.lua",
			"if w.expiries[1] and Leases.has_expired(w.expiries[1], t.now) or",
			"if",
		},
		ofStore, "TestBranchesAreHandedOver",
	},
	{
		"a copy is not handed over",
		change{
			lua + "shared/branches.lua",
			"return (Handover.taker_of(branch))",
			"return nil",
		},
		ofStore, "TestBranchesAreHandedOver",
	},
	{
		"a copy does not expire",
		change{
			lua + "shared/branches.lua",
			"if w.expiries[1] then",
			"if false then",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy has no key",
		change{
			lua + "shared/branches.lua",
			"if w.keyed[1] then",
			"if false then",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy waits for its key although it is to be dropped",
		change{
			lua + "shared/branches.lua",
			"for _, member in ipairs(w.drops) do Seats.may_drop",
			"for _, member in ipairs({}) do Seats.may_drop",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"a copy is in no group",
		change{
			lua + "shared/branches.lua",
			"if w.grouped[1] then",
			"if false then",
		},
		ofStore, "TestGroupsOfBranches|TestBranchHistories|TestGroups",
	},
	{
		"a copy joins its group once it has its record",
		change{
			lua + "shared/branches.lua",
			"  if w.grouped[1] then Groups.join(branch, w.grouped, t.now) end\n  for _, member in ipairs(w.drops) do Seats.may_drop(member, true) end\n  call('HSET', MESSAGES, unpack(w.records))\n",
			"  for _, member in ipairs(w.drops) do Seats.may_drop(member, true) end\n  call('HSET', MESSAGES, unpack(w.records))\n  if w.grouped[1] then Groups.join(branch, w.grouped, t.now) end\n",
		},
		ofStore, "TestBranchHistories",
	},
	{
		"what is copied counts as acknowledged in its group",
		change{
			lua + "shared/branches.lua",
			"  if t.grouped[1] then Groups.touch(topic, t.grouped, 'copied') end\n",
			"",
		},
		ofStore, "TestGroupsOfBranches|TestGroups",
	},
	{
		"a group is not looked at whose last copy left its id to another",
		change{
			lua + "shared/branches.lua",
			"if current.grouped then Callbacks.settle() end",
			"",
		},
		ofStore, "TestGroupsOfBranches|TestGroups",
	},
	{
		"a foreign index of groups stops the carrier",
		change{
			lua + "shared/branches.lua",
			"if not ready or Groups.are_foreign(topic) then",
			"if not ready then",
		},
		ofStore, "TestGroupsOfBranches",
	},
	{
		"a foreign key of a branch stops the carrier",
		change{
			lua + "shared/branches.lua",
			"if is_foreign(branch) then",
			"if false then",
		},
		ofStore, "TestForeignThingsOfBranches",
	},
	{
		"a group is looked at under the name of a branch",
		change{
			lua + "shared/callbacks.lua",
			"OF_GROUP .. Groups.home_of(topic) ..",
			"OF_GROUP .. topic ..",
		},
		ofStore, "TestGroupsOfBranches|TestGroups",
	},
	{
		"a copy has the entry of its original",
		change{
			lua + "shared/groups.lua",
			"  return branch and branch .. ':' or ''\n",
			"  return ''\n",
		},
		ofStore, "TestGroupsOfBranches|TestGroups",
	},
	{
		"a branch has groups of its own",
		change{
			"notify/store/script/library.go",
			"\t\t\tif r.home {\n",
			"\t\t\tif false {\n",
		},
		ofStore, "TestGroupsOfBranches|TestGroups",
	},
	{
		"the housekeeping looks for copies in their topic",
		change{
			lua + "shared/callbacks.lua",
			"local all = table_in(all_of, topic_of(member))",
			"local all = table_in(all_of, topic)",
		},
		ofStore, "TestGroupsOfBranchesAreMended",
	},
	{
		"an entry that is none of a copy holds a group for good",
		change{
			lua + "shared/groups.lua",
			"(string.find(entry, '^@[^:]+:') and '' or ':')",
			"(string.find(entry, '^@') and '' or ':')",
		},
		ofStore, "TestGroupsOfBranchesAreMended",
	},
	{
		"a repair looks for dead copies in their topic",
		change{
			lua + "repair/groups.lua",
			"dead_of(topic_of(member))",
			"dead_of(topic)",
		},
		ofRepair, "TestDamagedGroups",
	},
	{
		"a circle through a branch is none",
		change{
			lua + "shared/callbacks.lua",
			"  local in_topic, in_group = Groups.home_of(one.topic), one.group\n",
			"  local in_topic, in_group = one.topic, one.group\n",
		},
		ofNotify, "TestCircleOfGroups",
	},
	{
		"who may publish to a branch alone holds back groups of its topic",
		change{
			"daemon/calls/client.go",
			"branch != \"\" && m.Group != \"\"",
			"branch == \"/\"",
		},
		"./daemon/httpapi", "TestAfterGroup",
	},
	{
		"a search for a group passes over branches",
		change{
			"notify/find/parse.go",
			"q.topics[i] = q.topics[i].WithBranches()",
			"q.topics[i] = q.topics[i]",
		},
		"./notify/find", "TestFindGroupInBranches",
	},
	{
		"a call copies as if originals cost nothing",
		change{
			lua + "shared/branches.lua",
			"#t.members * (#branches + 1)\n",
			"#t.members * #branches\n",
		},
		ofStore, "TestBranchesTakeTurns",
	},
	{
		"a step writes records without a bound",
		change{
			lua + "shared/branches.lua",
			"SIZE / #branches",
			"SIZE * #branches",
		},
		ofStore, "TestBranchesOfLargeMessages",
	},
	{
		"what was copied stays in front of other topics",
		change{
			lua + "shared/branches.lua",
			"text(c.now + wait), entry) else",
			"'1', entry) else",
		},
		ofStore, "TestBranchesTakeTurns",
	},
	{
		"claims take what is to be copied",
		change{
			lua + "shared/limits.lua",
			"  if Settings.branches_in(own) then return 0 end\n",
			"",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"the carrier is not told of what is to be copied",
		change{
			lua + "shared/rings.lua",
			"return Rings.look_at(OF_BRANCHES .. topic, now)",
			"return nil",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"what a call carried is copied in the next one",
		change{
			lua + "shared/alarms.lua",
			"return current.copying",
			"return false",
		},
		ofStore, "TestBranches|TestBranchHistories",
	},
	{
		"copying goes on where memory is short",
		change{
			lua + "shared/branches.lua",
			"Memory.has_room(c.now) and ",
			"",
		},
		ofStore, "TestBranchesWithoutMemory",
	},
	{
		"what is to be copied is handed over",
		change{
			lua + "shared/handover.lua",
			"Limits.are_in(own)",
			"Limits.has_slots(own)",
		},
		ofStore, "TestBranchesAreHandedOver",
	},
	{
		"copying waits until schedules are settled",
		change{
			lua + "shared/alarms.lua",
			"Alarms.goes_on = true\n",
			"",
		},
		ofStore, "TestBranchesWhileSchedulesAreSettled",
	},
	{
		"a message that needs no seat passes a line from before",
		change{
			lua + "shared/seats.lua",
			" and call('EXISTS', line_of(topic)) == 0 then",
			" then",
		},
		ofStore, "TestBranchesOfALine",
	},
	{
		"what is called up to be copied is due then",
		change{
			lua + "shared/seats.lua",
			"copied and 0 or now",
			"now",
		},
		ofStore, "TestBranchesOfALine",
	},
	{
		"what was called up before there were branches is copied behind its line",
		change{
			lua + "shared/seats.lua",
			"if copied and first then go_before",
			"if false then go_before",
		},
		ofStore, "TestBranchesOfALine",
	},
	{
		"a repair gives seats where they are not needed",
		change{
			lua + "repair/seats.lua",
			"not Seats.are_copied(topic) and ",
			"",
		},
		ofRepair, "TestBranchesNeedNoSeats",
	},
	{
		"a branch is in a shard of its own",
		change{
			"notify/store/reach/shard.go",
			"record.SplitBranch(strings.TrimPrefix(topic, record.DeadPrefix))",
			"strings.TrimPrefix(topic, record.DeadPrefix), \"\"",
		},
		"./notify/store/reach", "TestShardOfTopic",
	},
	{
		"pushes of a pattern take the copies of branches",
		change{
			"daemon/push/tree.go",
			"branch != \"\"",
			"branch == \"/\"",
		},
		"./daemon/push", "TestPushesOfBranches",
	},

	// Bounds on real time.
	{
		"a carrier that was killed is replaced after nine seconds",
		change{
			"carrier/options.go",
			"DefaultLease     = 3 * time.Second",
			"DefaultLease     = 9 * time.Second",
		},
		"./cmd/bellhop/internal/trials/crash", "TestKillCarrier",
	},
}
