//go:build kubernetes_1_31

package upstream

const release = 31
