/* One line a command (no include guard: expanded more than once). */
CMD(train)
CMD(eval)
CMD(predict)
CMD(bench_train)
CMD(info)
CMD(man)
CMD(completion)
