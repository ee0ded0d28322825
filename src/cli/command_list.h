/* One line a command (no include guard: expanded more than once). */
CMD(info)
