package bench

var (
	Environment = environment
	Medians     = medians
	Rank        = rank
)
