package metrics

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// A figure is one number among the statistics of a part.
type figure[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

type number interface {
	~int | ~int64 | ~uint32 | ~float64
}

// gauge returns a figure that goes up and down, with the labels that it always has.
func gauge[T any, N number](name, help string, value func(T) N, labels ...prometheus.Labels) figure[T] {
	all := make(prometheus.Labels)
	for _, some := range labels {
		maps.Copy(all, some)
	}
	return figure[T]{prometheus.NewDesc(name, help, nil, all), prometheus.GaugeValue, func(of T) float64 { return float64(value(of)) }}
}

// counter returns a figure that only goes up, with the labels that it always has.
func counter[T any, N number](name, help string, value func(T) N, labels ...prometheus.Labels) figure[T] {
	f := gauge(name, help, value, labels...)
	f.kind = prometheus.CounterValue
	return f
}

// show shows the figures of a part.
func show[T any](to chan<- prometheus.Metric, figures []figure[T], stats T) {
	for _, f := range figures {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(stats))
	}
}

// truth returns 1 for what is, and 0 for what is not.
func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}
