package bench

var (
	Environment = environment
	Rank        = rank
)
