//go:build kubernetes_1_36

package upstream

const release = 36
