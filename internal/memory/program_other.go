//go:build !linux

package memory

func dropProgram() {}
