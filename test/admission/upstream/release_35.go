//go:build kubernetes_1_35

package upstream

const release = 35
